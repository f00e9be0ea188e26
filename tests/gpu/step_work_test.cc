// What a step asks of a GPU, counted on an emulated one: no more than a loop by hand does, and the
// host waits for nothing.

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <cinttypes>
#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/emulated/device.h"
#include "gpu/gpus.h"
#include "gpu/stops.h"
#include "parity/models.h"
#include "strata/keras/dtype_policy.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/one_device_strategy.h"

namespace strata::parity {
namespace {

using test::emulated_gpu::Counts;
using test::emulated_gpu::counts;
using test::emulated_gpu::Stops;
using test::emulated_gpu::stops_so_far;

constexpr int kSteps = 4;

/// Of one of the later steps.
template <typename Step>
Counts work_of(const Step& step) {
  for (int i = 0; i < kSteps; ++i) step();
  const Counts before = counts();
  step();
  const Counts after = counts();
  return {after.launches - before.launches, after.host_waits - before.host_waits};
}

TEST(GpuStepWorkTest, NoMoreThanALoopByHand) {
  const c10::Device gpu(c10::kCUDA, 0);
  OneDeviceStrategy strategy({.device = "gpu:0"});
  for (const Kind kind : {Kind::kMlp, Kind::kCnn, Kind::kEmbedding}) {
    data::Example batch = make_batches(kind, at::kFloat, 1, {16})[0];
    batch = batch.map([&](const at::Tensor& field) { return field.to(gpu); });
    for (const bool adam : {true, false}) {
      Net plain(kind, at::kFloat, /*plain=*/true);
      plain.to(gpu);
      std::unique_ptr<torch::optim::Optimizer> torch_optimizer;
      if (adam) {
        torch_optimizer = std::make_unique<torch::optim::Adam>(plain.parameters());
      } else {
        torch_optimizer = std::make_unique<torch::optim::SGD>(
            plain.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      }
      const Counts by_hand = work_of([&] {
        torch_optimizer->zero_grad();
        torch::nn::functional::cross_entropy(plain.forward(batch.x()), batch.y()).backward();
        torch_optimizer->step();
      });

      const auto net = strategy.replicate(
          [&] { return std::make_shared<Net>(kind, at::kFloat, /*plain=*/true); });
      const auto optimizer =
          (adam ? optimizer_case<optimizers::Adam>("", optimizers::AdamOptions{})
                : optimizer_case<optimizers::SGD>("", optimizers::SGDOptions{.momentum = 0.9}))
              .make(net.variables());
      const Counts actual = work_of([&] {
        strategy.run([&] {
          optimizer->minimize(
              compute_average_loss(losses::sparse_categorical_crossentropy(
                                       batch.y(), net->forward(batch.x()), {.from_logits = true}),
                                   batch.num_rows()));
        });
      });
      std::printf("%-12s %-5s kernels: ours %" PRId64 ", by hand %" PRId64 "\n", name_of(kind),
                  adam ? "adam" : "sgd", actual.launches, by_hand.launches);
      EXPECT_LE(actual.launches, by_hand.launches) << name_of(kind);
      EXPECT_EQ(actual.host_waits, 0) << name_of(kind);
    }
  }
}

// Whether the last step's gradients were finite is asked for when this one's are being computed.
TEST(GpuStepWorkTest, ALossScaleLetsTheHostBeAStepAhead) {
  OneDeviceStrategy strategy({.device = "gpu:0"});
  const auto net = strategy.replicate([] { return std::make_shared<Net>(Kind::kMlp, at::kFloat); });
  optimizers::LossScaleOptimizer optimizer(optimizers::Adam(net.variables()));
  data::Example batch = make_batches(Kind::kMlp, at::kFloat, 1, {16})[0];
  batch = batch.map([](const at::Tensor& field) { return field.to(c10::Device(c10::kCUDA, 0)); });
  int64_t of_gradients = 0;
  const auto step = [&] {
    strategy.run([&] {
      const int64_t before = counts().launches;
      const at::Tensor loss = losses::sparse_categorical_crossentropy(
                                  batch.y(), net->forward(batch.x()), {.from_logits = true})
                                  .mean();
      of_gradients = counts().launches - before;
      optimizer.minimize(loss);
    });
  };
  for (int i = 0; i < kSteps; ++i) step();
  test::emulated_gpu::take_least_work_behind();
  const int64_t waits = counts().host_waits;
  step();
  EXPECT_EQ(counts().host_waits - waits, 1);
  EXPECT_GE(test::emulated_gpu::take_least_work_behind(), 2 * of_gradients);
}

struct FitCase {
  std::string name;
  std::vector<std::string> devices;
  optimizers::AdamOptions adam = {};
  bool mixed = false;    // float16, with a loss scale that finds its size
  int logical = 1;       // GPUs of the first card
  bool weights = false;  // of samples and classes
  bool sharded = false;

  friend std::ostream& operator<<(std::ostream& out, const FitCase& fit) { return out << fit.name; }
};

class GpuFitStopsTest : public testing::TestWithParam<FitCase> {
 protected:
  void TearDown() override {
    keras::set_dtype_policy("float32");
    set_logical_devices("gpu:0", 1);
  }
};

TEST_P(GpuFitStopsTest, DoNotGrowWithTheSteps) {
  set_logical_devices("gpu:0", GetParam().logical);
  MirroredStrategy strategy(
      {.devices = GetParam().devices, .shard_optimizer_state = GetParam().sharded});
  const keras::Model model = strategy.scope([] {
    keras::Sequential net(keras::Input({6}), {layers::Dense(9, "relu"),
                                              layers::BatchNormalization({.synchronized = true}),
                                              layers::Dropout(0.1), layers::Dense(4)});
    net.compile({.optimizer = optimizers::Adam(GetParam().adam),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy()}});
    return net;
  });
  data::Dataset rows = as_dataset(make_batches(Kind::kMlp, at::kFloat, 60, {16}));
  keras::FitOptions options{.epochs = 1, .verbose = 0};
  if (GetParam().weights) {
    rows = rows.map([](const data::Example& batch) {
      return data::Example{batch.x(), batch.y(), batch.x().select(1, 0).abs()};
    });
    options.class_weight = {{0, 1}, {1, 2}, {2, 0.5}, {3, 1}};
  }
  const auto stops_of = [&](int64_t batches) {
    const Stops before = stops_so_far(GetParam().mixed);
    model.fit(rows.take(batches), options);
    return stops_so_far(GetParam().mixed) - before;
  };
  const auto pinned_blocks = [] {
    return test::emulated_gpu::PinnedMemory::instance().blocks_reserved();
  };
  const int64_t pinned_before = pinned_blocks();
  stops_of(60);
  Stops few = stops_of(10);
  Stops many = stops_of(60);
  EXPECT_EQ(few.bytes_reserved, 0);
  few.pinned_blocks = many.pinned_blocks = 0;
  EXPECT_EQ(many, few);
  const auto replicas = static_cast<int64_t>(strategy.num_replicas_in_sync());
  const int64_t fields = GetParam().weights ? 3 : 2;
  EXPECT_LE(pinned_blocks() - pinned_before,
            test::emulated_gpu::most_pinned_blocks(replicas, fields));
}

INSTANTIATE_TEST_SUITE_P(
    , GpuFitStopsTest,
    testing::Values(
        FitCase{"OneCard", {"gpu:0"}}, FitCase{"TwoCards", {"gpu:0", "gpu:1"}},
        FitCase{"ClippedByNorm", {"gpu:0"}, {.clipnorm = 0.5}},
        FitCase{"ClippedByGlobalNorm", {"gpu:0", "gpu:1"}, {.global_clipnorm = 0.5}},
        FitCase{"TwoLogicalGpus", {"gpu:0", "gpu:1"}, {}, false, 2},
        FitCase{"Weights", {"gpu:0", "gpu:1"}, {}, false, 1, true},
        FitCase{"Sharded", {"gpu:0", "gpu:1"}, {}, false, 1, false, true},
        FitCase{"ShardedClipped", {"gpu:0", "gpu:1"}, {.clipnorm = 0.5}, false, 1, false, true},
        FitCase{"ShardedMixed", {"gpu:0", "gpu:1"}, {}, true, 1, false, true},
        FitCase{"MixedFloat16", {"gpu:0"}, {}, true},
        FitCase{"MixedFloat16OnTwoCards", {"gpu:0", "gpu:1"}, {}, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::parity
