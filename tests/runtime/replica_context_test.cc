#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <map>
#include <stdexcept>

#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/strategy.h"
#include "support/replicas.h"
#include "support/this_replica.h"

namespace strata {
namespace {

using at::Tensor;

/// Every test once with the shared back end (N replicas) and once through CrossDeviceOps.
class ReplicaContextTest : public ::testing::TestWithParam<bool> {
 protected:
  ReplicaContextTest() { set_logical_devices("cpu", 8); }

  MirroredOptions options(int n) const {
    MirroredOptions result{.devices = cpus(n)};
    if (GetParam()) result.cross_device_ops = std::make_shared<ReductionToOneDevice>();
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(BackEnds, ReplicaContextTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("CrossDeviceOps") : std::string("Shared");
});

TEST_P(ReplicaContextTest, TellsWhichReplicaThisIs) {
  MirroredStrategy strategy(options(3));
  const PerReplica<int> ids = strategy.run([&] {
    EXPECT_EQ(replica().num_replicas_in_sync(), 3);
    EXPECT_EQ(replica().device().index, id());
    EXPECT_EQ(&replica().strategy(), &strategy);
    EXPECT_FALSE(in_cross_replica_context());
    return id();
  });
  EXPECT_EQ(ids.values(), (std::vector<int>{0, 1, 2}));
}

TEST_P(ReplicaContextTest, ContextsOutsideRun) {
  MirroredStrategy strategy(options(2));
  ASSERT_NE(get_replica_context(), nullptr);  // the default strategy's only replica
  EXPECT_EQ(replica().num_replicas_in_sync(), 1);
  EXPECT_EQ(&replica().strategy(), &default_strategy());
  strategy.scope([&] {
    EXPECT_EQ(get_replica_context(), nullptr);
    EXPECT_TRUE(in_cross_replica_context());
  });
  EXPECT_FALSE(in_cross_replica_context());
}

TEST_P(ReplicaContextTest, AllReduceOfEveryOperation) {
  for (const int n : {1, 2, 3}) {
    MirroredStrategy strategy(options(n));
    strategy.run([&] {
      const Tensor local = torch::tensor({1.0 + id(), -1.0 * id()});
      const double top = n, sum = n * (n + 1) / 2.0, low = n * (n - 1) / 2.0;
      EXPECT_TRUE(replica().all_reduce(ReduceOp::kSum, local).equal(torch::tensor({sum, -low})));
      EXPECT_TRUE(replica()
                      .all_reduce(ReduceOp::kMean, local)
                      .allclose(torch::tensor({sum / n, -low / n})));
      EXPECT_TRUE(replica().all_reduce(ReduceOp::kMin, local).equal(torch::tensor({1.0, 1 - top})));
      EXPECT_TRUE(replica().all_reduce(ReduceOp::kMax, local).equal(torch::tensor({top, -0.0})));
    });
  }
}

TEST_P(ReplicaContextTest, AllReduceGivesEachReplicaItsOwnCopyAndKeepsItsInput) {
  MirroredStrategy strategy(options(2));
  strategy.run([&] {
    const Tensor local = torch::full({5}, 1.0 + id());
    const Tensor sum = replica().all_reduce(ReduceOp::kSum, local);
    replica().all_reduce(ReduceOp::kSum, torch::zeros({1}));  // both have read
    EXPECT_TRUE(local.equal(torch::full({5}, 1.0 + id())));
    sum.add_(id());
    replica().all_reduce(ReduceOp::kSum, torch::zeros({1}));  // both have written
    EXPECT_TRUE(sum.equal(torch::full({5}, 3.0 + id()))) << "copies are one tensor";
  });
}

TEST_P(ReplicaContextTest, AllReduceOfIntegers) {
  MirroredStrategy strategy(options(2));
  strategy.run([&] {
    const Tensor local = torch::tensor({id(), 1 + id()}, torch::kInt);
    EXPECT_TRUE(
        replica().all_reduce(ReduceOp::kSum, local).equal(torch::tensor({1, 3}, torch::kInt)));
    const Tensor mean = replica().all_reduce(ReduceOp::kMean, local);
    EXPECT_TRUE(mean.is_floating_point());
    EXPECT_TRUE(mean.to(torch::kDouble).equal(torch::tensor({0.5, 1.5}, torch::kDouble)));
  });
}

TEST_P(ReplicaContextTest, AllReduceOfSeveralTensors) {
  MirroredStrategy strategy(options(3));
  strategy.run([&] {
    const std::vector<Tensor> sums = replica().all_reduce(
        ReduceOp::kSum,
        std::vector<Tensor>{torch::ones({2}), torch::full({3, 1}, id()), torch::ones({0, 4})});
    ASSERT_EQ(sums.size(), 3u);
    EXPECT_TRUE(sums[0].equal(torch::full({2}, 3.0)));
    EXPECT_TRUE(sums[1].equal(torch::full({3, 1}, 3)));
    EXPECT_EQ(sums[2].sizes(), (std::vector<int64_t>{0, 4}));
  });
}

TEST_P(ReplicaContextTest, AllReduceOfStridedTensors) {
  MirroredStrategy strategy(options(2));
  strategy.run([&] {
    const Tensor local = torch::arange(6.0).reshape({2, 3}).t() + id();
    EXPECT_TRUE(replica()
                    .all_reduce(ReduceOp::kSum, local)
                    .equal(torch::arange(6.0).reshape({2, 3}).t() * 2 + 1));
  });
}

// Rule 15: y = (id + 1) all_reduce(x^2).
TEST_P(ReplicaContextTest, GradientOfAllReduceIsAllReduceWithTheSameOp) {
  MirroredStrategy strategy(options(2));
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    const PerReplica<double> gradients = strategy.run([&] {
      const Tensor x = torch::tensor(3.0 + 2 * id(), torch::requires_grad());
      ((id() + 1) * replica().all_reduce(op, x * x)).backward();
      return x.grad().item<double>();
    });
    const double factor = op == ReduceOp::kSum ? 1 : 0.5;
    EXPECT_EQ(gradients.values(), (std::vector<double>{18 * factor, 30 * factor}));
  }
}

TEST_P(ReplicaContextTest, GradientOfMinimumIsRefused) {
  MirroredStrategy strategy(options(2));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[replica_context] all_reduce: got the gradient of MIN", "detach the value"},
                     [&] {
                       strategy.run([&] {
                         const Tensor x = torch::tensor(3.0, torch::requires_grad());
                         replica().all_reduce(ReduceOp::kMin, x).backward();
                       });
                     }));
}

TEST_P(ReplicaContextTest, ErrorReachesReplicasThatWaitInBackward) {
  MirroredStrategy strategy(options(3));
  for (const bool gather : {false, true}) {
    EXPECT_THROW(strategy.run([&] {
      const Tensor x = torch::ones({1}, torch::requires_grad());
      const Tensor y =
          gather ? replica().all_gather(x, 0).sum() : replica().all_reduce(ReduceOp::kSum, x).sum();
      if (id() == 1) throw std::out_of_range("before backward");
      y.backward();
    }),
                 std::out_of_range);
    const PerReplica<double> gradients = strategy.run([&] {  // autograd goes on
      const Tensor x = torch::ones({1}, torch::requires_grad());
      replica().all_reduce(ReduceOp::kSum, x * 2).sum().backward();
      return x.grad().item<double>();
    });
    EXPECT_EQ(gradients.values(), std::vector<double>(3, 6.0));
  }
}

TEST_P(ReplicaContextTest, DifferentOperationsAreRefused) {
  MirroredStrategy strategy(options(2));
  EXPECT_TRUE(throws(
      ErrorCode::kFailedPrecondition, {"replicas disagree: replica 0 calls all_reduce"}, [&] {
        strategy.run([&] {
          replica().all_reduce(id() ? ReduceOp::kMean : ReduceOp::kSum, torch::ones({1}));
        });
      }));
}

TEST_P(ReplicaContextTest, AllReduceOfBoolIsRefused) {
  MirroredStrategy strategy(options(2));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[replica_context] all_reduce: got bool", "cast it to int32 first"}, [&] {
                       strategy.run([&] {
                         replica().all_reduce(ReduceOp::kSum, torch::ones({2}, torch::kBool));
                       });
                     }));
}

TEST_P(ReplicaContextTest, AllReduceOfUnequalShapesIsRefusedAndTheStrategyGoesOn) {
  MirroredStrategy strategy(options(2));
  try {
    strategy.run([&] { replica().all_reduce(ReduceOp::kSum, torch::ones({2 + id()})); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[2]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("[3]"), std::string::npos) << error.what();
  }
  strategy.run(
      [&] { EXPECT_EQ(replica().all_reduce(ReduceOp::kSum, torch::ones({})).item<double>(), 2); });
}

TEST_P(ReplicaContextTest, AllGatherConcatenatesInReplicaOrder) {
  MirroredStrategy strategy(options(3));
  strategy.run([&] {
    const Tensor rows = torch::full({id(), 2}, id());  // 0, 1 and 2 rows
    EXPECT_TRUE(replica().all_gather(rows, 0).equal(torch::tensor({{1, 1}, {2, 2}, {2, 2}})));
    const Tensor columns = torch::full({1, id() + 1}, id());
    EXPECT_TRUE(replica().all_gather(columns, 1).equal(torch::tensor({{0, 1, 1, 2, 2, 2}})));
  });
}

TEST_P(ReplicaContextTest, GradientOfAllGatherIsTheSumOfWhatAllReplicasMakeOfTheRows) {
  MirroredStrategy strategy(options(3));
  const PerReplica<Tensor> gradients = strategy.run([&] {
    const Tensor rows = torch::ones({id() + 1, 2}, torch::requires_grad());
    // Replica r weighs row i of the 6 with (r + 1) * (i + 1): over replicas 6 (i + 1).
    const Tensor weights = (id() + 1) * torch::arange(1.0, 7.0).unsqueeze(1);
    (replica().all_gather(rows, 0) * weights).sum().backward();
    return rows.grad();
  });
  const Tensor expected = (6 * torch::arange(1.0, 7.0)).unsqueeze(1).expand({6, 2});
  EXPECT_TRUE(gradients.get(0).equal(expected.narrow(0, 0, 1)));
  EXPECT_TRUE(gradients.get(1).equal(expected.narrow(0, 1, 2)));
  EXPECT_TRUE(gradients.get(2).equal(expected.narrow(0, 3, 3)));
}

TEST_P(ReplicaContextTest, AllGatherErrorsNameWhatCame) {
  MirroredStrategy strategy(options(2));
  const auto gather = [&](const std::function<Tensor()>& value, int64_t axis) {
    return [&strategy, value, axis] { strategy.run([&] { replica().all_gather(value(), axis); }); };
  };
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"[replica_context] all_gather: got axis 0 for a tensor of rank 0", "reshape to [1]"},
             gather([] { return torch::tensor(1.0); }, 0)));
  for (const int64_t axis : {-1, 1}) {
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"rank 1; expected 0 <= axis < rank"},
                       gather([] { return torch::ones({2}); }, axis)));
  }
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[1, 2]", "[1, 3]", "shapes that differ only along the gather axis"},
                     gather(
                         [] {
                           return torch::ones({1, 2 + id()});
                         },
                         0)));
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument, {"Float", "Double", "equal dtypes"},
             gather([] { return torch::ones({1}, id() ? torch::kDouble : torch::kFloat); }, 0)));
}

TEST_P(ReplicaContextTest, MergeCallRunsOnceInCrossReplicaContext) {
  MirroredStrategy strategy(options(3));
  std::atomic<int> calls{0};
  const PerReplica<double> results = strategy.run([&] {
    const double sum = replica().merge_call(
        [&](Strategy& merged, const PerReplica<double>& values) {
          ++calls;
          EXPECT_EQ(&merged, &strategy);
          EXPECT_TRUE(in_cross_replica_context());
          EXPECT_EQ(&get_strategy(), &strategy);
          return merged.reduce(ReduceOp::kSum, values);
        },
        1.0 + id());
    EXPECT_FALSE(in_cross_replica_context());
    EXPECT_EQ(&replica().strategy(), &strategy);
    return sum;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(results.values(), (std::vector<double>{6, 6, 6}));
}

TEST_P(ReplicaContextTest, MergeCallTakesStructuresAndReturnsNothing) {
  MirroredStrategy strategy(options(2));
  struct Nested {
    std::map<std::string, std::vector<Tensor>> tensors;
    int id;
  };
  std::vector<int> ids;
  Tensor sum;
  strategy.run([&] {
    const Nested local{.tensors = {{"a", {torch::ones({2}), torch::full({1}, id())}}}, .id = id()};
    replica().merge_call(
        [&](Strategy&, const PerReplica<Nested>& all, const PerReplica<std::string>& names) {
          for (const Nested& each : all) ids.push_back(each.id);
          sum = all.get(0).tensors.at("a")[1] + all.get(1).tensors.at("a")[1];
          EXPECT_EQ(names.values(), (std::vector<std::string>{"r0", "r1"}));
        },
        local, std::string(str_cat("r", id())));
  });
  EXPECT_EQ(ids, (std::vector<int>{0, 1}));
  EXPECT_EQ(sum.item<double>(), 1);
}

TEST_P(ReplicaContextTest, EachReplicaGetsItsOwnCopyOfWhatMergeCallReturns) {
  MirroredStrategy strategy(options(2));
  const PerReplica<std::vector<int>> results = strategy.run([&] {
    auto list = replica().merge_call([](Strategy&) { return std::vector<int>{1, 2}; });
    list.push_back(id());
    return list;
  });
  EXPECT_EQ(results.get(0), (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(results.get(1), (std::vector<int>{1, 2, 1}));
}

TEST_P(ReplicaContextTest, ErrorInMergeCallReachesTheCaller) {
  MirroredStrategy strategy(options(3));
  EXPECT_THROW(strategy.run([&] {
    replica().merge_call([](Strategy&) { throw std::out_of_range("merged"); });
    ADD_FAILURE() << "a replica went on";
  }),
               std::out_of_range);
  EXPECT_EQ(strategy.run([] { return id(); }).size(), 3);
}

TEST_P(ReplicaContextTest, DifferentCallsAreNamed) {
  MirroredStrategy strategy(options(2));
  EXPECT_TRUE(throws(
      ErrorCode::kFailedPrecondition,
      {"replicas disagree", "replica 0 calls merge_call", "replica 1 calls all_gather"}, [&] {
        strategy.run([&] {
          if (id() == 0) replica().merge_call([](Strategy&) {});
          if (id() == 1) replica().all_gather(torch::ones({1}), 0);
        });
      }));
}

TEST_P(ReplicaContextTest, ValuesOutsideAStrategyReduceToThemselves) {
  const Tensor x = torch::tensor({1.0, 2.0}, torch::requires_grad());
  const Tensor y = replica().all_reduce(ReduceOp::kMean, x);
  EXPECT_TRUE(y.equal(x));
  EXPECT_NE(y.data_ptr(), x.data_ptr());
  (replica().all_gather(y, 0) * 3).sum().backward();
  EXPECT_TRUE(x.grad().equal(torch::full({2}, 3.0)));
  EXPECT_EQ(replica().merge_call([](Strategy& s) { return s.num_replicas_in_sync(); }), 1);
}

}  // namespace
}  // namespace strata
