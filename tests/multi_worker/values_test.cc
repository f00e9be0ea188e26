// Values of replicas that are neither dense nor of one process, and what strategies refuse: the
// same in one process and in several.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "multi_worker/spread.h"
#include "strata/collective/algorithms.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/strategy.h"
#include "strata/tensor/fingerprint.h"

namespace strata {
namespace {

using test::run_well;
using test::Spread;

/// Row `id` and row 1, of three rows of two.
at::Tensor rows_of(int id) {
  const at::Tensor indices = at::tensor({int64_t{id % 3}, int64_t{1}}).unsqueeze(0);
  return at::sparse_coo_tensor(indices, at::full({2, 2}, id + 1.0), {3, 2});
}

at::Tensor dense_sum(int replicas) {
  at::Tensor sum = at::zeros({3, 2});
  for (int id = 0; id < replicas; ++id) sum += rows_of(id).to_dense();
  return sum;
}

class ValuesTest : public testing::TestWithParam<Spread> {
 protected:
  int replicas() const {
    int all = 0;
    for (const int each : GetParam()) all += each;
    return all;
  }
};

TEST_P(ValuesTest, SparseOnesAreSummedAsTheirEntries) {
  run_well(GetParam(), [&](Strategy& strategy, int) {
    const auto each =
        strategy.run([] { return rows_of(get_replica_context()->replica_id_in_sync_group()); });
    const at::Tensor sum = strategy.reduce(ReduceOp::kSum, each);
    EXPECT_TRUE(sum.is_sparse());
    EXPECT_EQ(sum._nnz(), 2 * replicas());
    EXPECT_TRUE(sum.to_dense().equal(dense_sum(replicas())));
    EXPECT_TRUE(strategy.reduce(ReduceOp::kMean, each)
                    .to_dense()
                    .allclose(dense_sum(replicas()) / replicas()));
    // And inside run.
    const auto inside = strategy.run([] {
      const ReplicaContext& context = *get_replica_context();
      return context.all_reduce(ReduceOp::kSum, rows_of(context.replica_id_in_sync_group()));
    });
    for (const at::Tensor& value : inside) {
      EXPECT_TRUE(value.to_dense().equal(dense_sum(replicas())));
    }
  });
}

TEST_P(ValuesTest, WhatHasNoSumIsRefusedByName) {
  run_well(GetParam(), [&](Strategy& strategy, int) {
    const auto refused = [&](const std::string& part, const std::function<void()>& call) {
      try {
        call();
        ADD_FAILURE() << "taken; expected " << part;
      } catch (const Error& error) {
        const std::string what = error.what();
        EXPECT_NE(what.find(part), std::string::npos) << what;
        EXPECT_EQ(what.find("frame #"), std::string::npos) << "libtorch's backtrace: " << what;
      }
    };
    const auto sparse = strategy.run([] { return rows_of(0); });
    refused("MIN of sparse tensors", [&] { (void)strategy.reduce(ReduceOp::kMin, sparse); });
    const auto complex = strategy.run([] { return at::ones({2}, at::kComplexFloat); });
    EXPECT_TRUE(strategy.reduce(ReduceOp::kSum, complex)
                    .equal(at::full({2}, replicas(), at::kComplexFloat)));
    refused("which has no order", [&] { (void)strategy.reduce(ReduceOp::kMax, complex); });
  });
}

TEST_P(ValuesTest, EveryProcessGetsAllResults) {
  run_well(GetParam(), [&](Strategy& strategy, int) {
    const auto each = strategy.run([] {
      const ReplicaContext& context = *get_replica_context();
      const int id = context.replica_id_in_sync_group();
      return at::full({id + 1}, id, at::kLong);  // sizes differ
    });
    const std::vector<at::Tensor> all = strategy.all_results(each);
    ASSERT_EQ(all.size(), static_cast<size_t>(replicas()));
    for (int id = 0; id < replicas(); ++id) {
      EXPECT_TRUE(all[static_cast<size_t>(id)].equal(at::full({id + 1}, id, at::kLong)));
    }
  });
}

TEST_P(ValuesTest, StrategiesDoNotMix) {
  run_well(GetParam(), [&](Strategy& strategy, int) {
    MirroredStrategy other({.devices = cpus(2)});
    const auto value = strategy.run([] { return at::ones({1}); });
    strategy.scope([&] {
      EXPECT_TRUE(
          throws(ErrorCode::kFailedPrecondition, {"Mixing different"}, [&] { other.run([] {}); }));
      EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"Mixing different"}, [&] {
        (void)other.reduce(ReduceOp::kSum, PerReplica<at::Tensor>({at::ones({1}), at::ones({1})}));
      }));
      default_strategy().run([] {});  // the default one mixes with all
      EXPECT_NO_THROW((void)strategy.reduce(ReduceOp::kSum, value));
    });
    other.run([] {});
  });
}

INSTANTIATE_TEST_SUITE_P(Spreads, ValuesTest,
                         testing::Values(Spread{1}, Spread{3}, Spread{1, 2}, Spread{1, 1, 1}),
                         [](const auto& spread) {
                           std::string name;
                           for (const int each : spread.param) name += std::to_string(each);
                           return name;
                         });

// An algorithm of a program's own, which is one of ours under another name: it is used, and the
// bits are the same.
TEST(OwnAlgorithmTest, ReachesAStrategy) {
  using collective::Algorithm;
  const auto digest = [](const collective::CommunicationOptions& communication) {
    std::mutex mutex;
    std::set<std::string> digests;
    MultiWorkerMirroredOptions options;
    options.communication_options = communication;
    run_well(
        {1, 2, 1},
        [&](Strategy& strategy, int) {
          std::vector<Variable> weights;
          strategy.scope([&] { weights.emplace_back(at::ones({1000})); });
          optimizers::SGD sgd(weights, {.learning_rate = 0.1});
          for (int step = 0; step < 3; ++step) {
            strategy.run([&] {
              const ReplicaContext& context = *get_replica_context();
              const double scale = 1.0 / (3 + context.replica_id_in_sync_group());
              sgd.minimize((weights[0].value() * scale).sin().sum());
            });
          }
          const std::lock_guard lock(mutex);
          digests.insert(tensor::fingerprint({weights[0].value().detach()}));
        },
        options);
    EXPECT_EQ(digests.size(), 1U);
    return *digests.begin();
  };
  collective::CommunicationOptions own;
  auto made = std::make_shared<std::atomic<int>>(0);
  const collective::Algorithms standard = collective::Algorithms::standard();
  for (const Algorithm& algorithm : standard.all()) {
    if (!algorithm.fixed_order || algorithm.fits) continue;
    Algorithm local = algorithm;
    local.name = "mine";
    local.make = [make = algorithm.make, made](const collective::Request& request) {
      ++*made;
      return make(request);
    };
    const bool known = std::ranges::any_of(
        own.algorithms, [&](const Algorithm& each) { return each.collective == local.collective; });
    if (!known) own.algorithms.push_back(local);
  }
  ASSERT_FALSE(own.algorithms.empty());
  own.implementation = "MINE";
  const std::string expected = digest({});
  EXPECT_EQ(digest(own), expected);
  EXPECT_GT(*made, 0);
}

}  // namespace
}  // namespace strata
