// Cards of several workers that share an optimizer's state out, over NCCL's interface: the workers are
// threads of this process.

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "gpu/emulated/device.h"
#include "gpu/emulated/order.h"
#include "gpu/fake_nccl/fake_nccl.h"
#include "parity/models.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/thread_cluster.h"

namespace strata::parity {
namespace {

constexpr int kCards = 4;

class NcclShardsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(test::emulated_gpu::num_devices(), kCards); }
  void TearDown() override {
    EXPECT_TRUE(test::emulated_gpu::order_errors().empty());
    test::emulated_gpu::forget_order_errors();
  }

  /// The weights, and the slots.
  static std::vector<at::Tensor> train(Strategy& strategy, Kind kind, double clipnorm) {
    const Outcome outcome =
        train_under(strategy, kind, at::kFloat, make_batches(kind, at::kFloat, 6, {16, 12}),
                    optimizer_case<optimizers::Adam>(
                        "", optimizers::AdamOptions{.learning_rate = 0.01, .clipnorm = clipnorm}),
                    Form::kAverageLoss);
    std::vector<at::Tensor> state = outcome.weights;
    state.insert(state.end(), outcome.slots.begin(), outcome.slots.end());
    for (at::Tensor& each : state) each = each.cpu();
    return state;
  }

  static std::vector<std::string> cards(int first, int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(str_cat("gpu:", first + i));
    return names;
  }

  /// What all of so many workers have, with 4 cards between them.
  static std::vector<at::Tensor> workers(int count, const MultiWorkerMirroredOptions& given,
                                         Kind kind, double clipnorm = 0) {
    test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", count}}));
    std::mutex mutex;
    std::vector<std::vector<at::Tensor>> states;
    test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
      MultiWorkerMirroredOptions options = given;
      const int replicas = kCards / count;
      options.devices = cards(task.id.index * replicas, replicas);
      options.seed = 5;
      MultiWorkerMirroredStrategy strategy(task.taking_part(std::move(options)));
      std::vector<at::Tensor> state = train(strategy, kind, clipnorm);
      const std::lock_guard lock(mutex);
      states.push_back(std::move(state));
    }));
    for (const auto& each : states) {
      EXPECT_EQ(tensor::fingerprint(each), tensor::fingerprint(states[0]));
    }
    return states.empty() ? std::vector<at::Tensor>() : states[0];
  }
};

TEST_F(NcclShardsTest, AreTheSameBitsWhereverTheCardsAre) {
  for (const Kind kind : {Kind::kMlp, Kind::kEmbedding}) {
    for (const double clipnorm : {0.0, 0.1}) {
      SCOPED_TRACE(str_cat(name_of(kind), ", clipped by ", clipnorm));
      const auto one_process = [&](bool sharded) {
        MirroredStrategy strategy(
            {.devices = cards(0, kCards), .seed = 5, .shard_optimizer_state = sharded});
        return tensor::fingerprint(train(strategy, kind, clipnorm));
      };
      const std::string expected = one_process(false);
      EXPECT_EQ(one_process(true), expected);
      for (const int count : {2, 4}) {
        EXPECT_EQ(
            tensor::fingerprint(workers(count, {.shard_optimizer_state = true}, kind, clipnorm)),
            expected)
            << count << " workers";
      }
    }
  }
}

TEST_F(NcclShardsTest, AnyOrderIsNcclsReduceScatter) {
  const MultiWorkerMirroredOptions fixed{.shard_optimizer_state = true};
  MultiWorkerMirroredOptions any = fixed;
  any.communication_options.order = collective::Order::kAny;
  const std::vector<at::Tensor> expected = workers(2, fixed, Kind::kMlp);
  fake_nccl_reset_counters();
  EXPECT_LE(difference(workers(2, any, Kind::kMlp), expected), 1e-5);
  EXPECT_GT(fake_nccl_operations("ReduceScatter"), 0U);
  EXPECT_GT(fake_nccl_operations("AllGather"), 0U);
  EXPECT_EQ(fake_nccl_operations("AllReduce"), 0U);
}

}  // namespace
}  // namespace strata::parity
