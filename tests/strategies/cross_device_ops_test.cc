#include "strata/runtime/cross_device_ops.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "runtime/replica_group.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "support/replicas.h"
#include "support/this_replica.h"
#include "tensor/tree_sum.h"

namespace strata {
namespace {

using at::Tensor;
using Values = PerReplica<Tensor>;

/// Tensors whose sum shows the order of adding.
Values wild(int n, at::IntArrayRef shape) {
  std::vector<Tensor> values;
  for (int i = 0; i < n; ++i) {
    torch::manual_seed(i);
    values.push_back(torch::randn(shape) * std::pow(10.0, i % 5));
  }
  return Values(std::move(values));
}

Tensor tree_sum(const Values& values) {
  return tensor::reduce_in_tree_order(tensor::TreeOp::kSum, values.values());
}

class CrossDeviceOpsTest : public ::testing::Test {
 protected:
  CrossDeviceOpsTest() { set_logical_devices("cpu", 8); }
};

TEST_F(CrossDeviceOpsTest, AlgorithmsGiveEqualBitsForAnyNumberOfReplicas) {
  ReductionToOneDevice one;
  ReductionToOneDevice named({.reduce_to_device = "cpu:1"});
  HierarchicalCopyAllReduce hierarchical;
  HierarchicalCopyAllReduce unpacked({.num_packs = 0});
  // Odd numbers too, where TensorFlow's hierarchical copy loses the last replica.
  for (const int n : {1, 2, 3, 5, 7, 8}) {
    const Values values = wild(n, {3, 5});
    const Tensor sum = tree_sum(values);
    const Tensor mean = sum.div(static_cast<double>(n));
    for (CrossDeviceOps* ops :
         std::initializer_list<CrossDeviceOps*>{&one, &named, &hierarchical, &unpacked}) {
      const Values sums = ops->reduce(ReduceOp::kSum, values);
      const Values means = ops->reduce(ReduceOp::kMean, values);
      const Values tops = ops->reduce(ReduceOp::kMax, values);
      ASSERT_EQ(sums.size(), n);
      for (int r = 0; r < n; ++r) {
        EXPECT_TRUE(sums.get(r).equal(sum)) << n << " replicas";
        EXPECT_TRUE(means.get(r).equal(mean)) << n << " replicas";
        EXPECT_TRUE(tops.get(r).equal(torch::stack(values.values()).amax(0)));
      }
    }
  }
}

TEST_F(CrossDeviceOpsTest, BatchesKeepTheirShapesAndOrderInAnyPacks) {
  const std::vector<Values> batch = {wild(3, {2, 3}), wild(3, {1}), wild(3, {0}), wild(3, {5}),
                                     wild(3, {})};
  for (const int packs : {0, 1, 2, 3, 5, 100}) {
    HierarchicalCopyAllReduce ops({.num_packs = packs});
    const std::vector<Values> results = ops.batch_reduce(ReduceOp::kSum, batch);
    ASSERT_EQ(results.size(), batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      for (int r = 0; r < 3; ++r) {
        EXPECT_TRUE(results[i].get(r).equal(tree_sum(batch[i]))) << packs << " packs, value " << i;
      }
    }
  }
}

// Rule 26; tests/strategies/golden_test.cc has TensorFlow's own.
TEST_F(CrossDeviceOpsTest, PackBorders) {
  using Borders = std::vector<int64_t>;
  EXPECT_EQ(detail::pack_borders(7, 3), (Borders{0, 2, 4, 7}));
  EXPECT_EQ(detail::pack_borders(3, 5), (Borders{0, 0, 0, 0, 0, 3}));
  EXPECT_EQ(detail::pack_borders(0, 2), (Borders{0, 0, 0}));
  EXPECT_EQ(detail::pack_borders(10, 1), (Borders{0, 10}));
}

TEST_F(CrossDeviceOpsTest, PacksReachTheReductionWithThoseBorders) {
  std::vector<int64_t> sizes;
  const std::vector<Values> batch = {wild(2, {4}), wild(2, {1, 3})};
  detail::reduce_packed(batch, 3, [&](const Values& pack) {
    sizes.push_back(pack.get(0).numel());
    return Values({tree_sum(pack), tree_sum(pack)});
  });
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 3}));
}

TEST_F(CrossDeviceOpsTest, AccumulationFunctionIsUsedForSums) {
  ReductionToOneDevice ops(
      {.reduce_to_device = {},
       .accumulation_fn = [](const std::vector<Tensor>& values) { return values[0] * 100; }});
  const Values values({torch::tensor({1.0}), torch::tensor({5.0})});
  EXPECT_EQ(ops.reduce(ReduceOp::kSum, values).get(1).item<double>(), 100);
  EXPECT_EQ(ops.reduce(ReduceOp::kMean, values).get(1).item<double>(), 50);
  EXPECT_EQ(ops.reduce(ReduceOp::kMax, values).get(1).item<double>(), 5);
}

TEST_F(CrossDeviceOpsTest, BroadcastCopiesToEachDevice) {
  ReductionToOneDevice ops;
  const Tensor value = torch::tensor({1.0, 2.0});
  const Values copies = ops.broadcast(value, list_logical_devices("CPU"));
  ASSERT_EQ(copies.size(), 8);
  copies.get(0).zero_();
  EXPECT_TRUE(copies.get(7).equal(value));
  EXPECT_EQ(value[0].item<double>(), 1);
}

TEST_F(CrossDeviceOpsTest, ValuesMustAgree) {
  ReductionToOneDevice ops;
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"[cross_device_ops] reduce: got no values"},
                     [&] { ops.reduce(ReduceOp::kSum, Values()); }));
  EXPECT_TRUE(throws(
      ErrorCode::kInvalidArgument,
      {"[cross_device_ops] reduce: got Float [2] on replica 0 and Float [3] on replica 1"}, [&] {
        ops.reduce(ReduceOp::kSum, Values({torch::ones({2}), torch::ones({3})}));
      }));
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"[cross_device_ops] batch_reduce: got Float [2] on replica 0 and Int [2]"}, [&] {
               ops.batch_reduce(ReduceOp::kSum,
                                {Values({torch::ones({2}), torch::ones({2}, torch::kInt)})});
             }));
}

TEST_F(CrossDeviceOpsTest, NegativePacksAreRefused) {
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"[hierarchical_copy_all_reduce] num_packs: got -1; expected 0 (no packing) or more"},
             [] { HierarchicalCopyAllReduce({.num_packs = -1}); }));
}

TEST_F(CrossDeviceOpsTest, NcclSaysHowToGetItWhereItIsMissing) {
  try {
    NcclAllReduce nccl;  // a machine with NCCL makes its communicators when it meets devices
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
    for (const char* part :
         {"[nccl_all_reduce] NCCL is missing: ", "pip install torch", "STRATA_NCCL=PATH"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST_F(CrossDeviceOpsTest, CpusNeedNone) {
  EXPECT_EQ(choose_cross_device_ops(list_logical_devices("CPU")), nullptr);
  EXPECT_EQ(MirroredStrategy({.devices = cpus(2)}).group().cross_device_ops(), nullptr);
}

/// What a user brings: counts, and adds in an order of its own.
class Counting : public CrossDeviceOps {
 public:
  int reduced = 0;

 private:
  Values do_reduce(ReduceOp op, const Values& values) override {
    ++reduced;
    Tensor sum = torch::zeros_like(values.get(0));
    for (int i = values.size() - 1; i >= 0; --i) sum = sum + values.get(i);
    if (op == ReduceOp::kMean) sum = sum / values.size();
    return Values(std::vector<Tensor>(static_cast<size_t>(values.size()), sum));
  }
};

TEST_F(CrossDeviceOpsTest, UsersOwnServesGradientsAndAllReduce) {
  auto ops = std::make_shared<Counting>();
  MirroredStrategy own({.devices = cpus(3), .cross_device_ops = ops});
  MirroredStrategy shared({.devices = cpus(3)});
  std::vector<Tensor> trained;
  for (MirroredStrategy* strategy : {&own, &shared}) {
    torch::manual_seed(1);
    const auto net = strategy->replicate([] { return torch::nn::Linear(4, 2); });
    optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
    for (int step = 0; step < 3; ++step) {
      strategy->run([&] {
        sgd.minimize(net->forward(torch::full({2, 4}, 1.0 + id())).square().sum());
        const Tensor sum = get_replica_context()->all_reduce(ReduceOp::kSum, torch::ones({2}));
        EXPECT_TRUE(sum.equal(torch::full({2}, 3.0)));
      });
    }
    trained.push_back(net->weight.detach().clone());
  }
  EXPECT_EQ(ops->reduced, 3 * (2 + 1));  // weight and bias, one by one, and the all_reduce
  EXPECT_TRUE(trained[0].allclose(trained[1]));
}

TEST_F(CrossDeviceOpsTest, WhatUsersReturnIsChecked) {
  class TooFew : public CrossDeviceOps {
    Values do_reduce(ReduceOp, const Values& values) override { return Values({values.get(0)}); }
  };
  class WrongShape : public CrossDeviceOps {
    Values do_reduce(ReduceOp, const Values&) override {
      return Values({torch::ones({1}), torch::ones({1})});
    }
  };
  const Values values({torch::ones({2}), torch::ones({2})});
  TooFew too_few;
  EXPECT_TRUE(
      throws(ErrorCode::kInternal,
             {"[cross_device_ops] reduce: got 1 results for 2 replicas; return one per replica"},
             [&] { too_few.reduce(ReduceOp::kSum, values); }));
  WrongShape wrong;
  EXPECT_TRUE(throws(ErrorCode::kInternal, {"another shape than the value's [2] for replica 0"},
                     [&] { wrong.reduce(ReduceOp::kSum, values); }));
  class LosesValues : public Counting {
    std::vector<Values> do_batch_reduce(ReduceOp, const std::vector<Values>&) override {
      return {};
    }
  };
  LosesValues loses;
  EXPECT_TRUE(throws(ErrorCode::kInternal, {"batch_reduce: got 0 results for 1 values"},
                     [&] { loses.batch_reduce(ReduceOp::kSum, {values}); }));
}

TEST_F(CrossDeviceOpsTest, ErrorOfUsersOwnReachesTheCaller) {
  class Failing : public CrossDeviceOps {
    Values do_reduce(ReduceOp, const Values&) override { throw std::out_of_range("cable"); }
  };
  MirroredStrategy strategy({.devices = cpus(3), .cross_device_ops = std::make_shared<Failing>()});
  EXPECT_THROW(
      strategy.run([] { get_replica_context()->all_reduce(ReduceOp::kSum, torch::ones({})); }),
      std::out_of_range);
  EXPECT_EQ(strategy.run([] { return id(); }).values(), (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace strata
