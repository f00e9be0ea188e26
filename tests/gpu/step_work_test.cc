// What a step asks of a GPU, counted on an emulated one: no more than a loop by hand does, and the
// host waits for nothing.

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <cinttypes>
#include <cstdio>

#include "gpu/emulated/device.h"
#include "gpu/gpus.h"
#include "parity/models.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/strategies/one_device_strategy.h"

namespace strata::parity {
namespace {

using test::emulated_gpu::Counts;
using test::emulated_gpu::counts;

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

TEST(GpuStepWorkTest, FitWaitsAtTheEndOfAnEpochAlone) {
  OneDeviceStrategy strategy({.device = "gpu:0"});
  const keras::Model model = strategy.scope([] {
    keras::Sequential net(keras::Input({6}), {layers::Dense(9, "relu"), layers::Dense(4)});
    net.compile({.optimizer = optimizers::Adam(),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy()}});
    return net;
  });
  const auto rows = as_dataset(make_batches(Kind::kMlp, at::kFloat, 40, {16}));
  const auto waits_of = [&](int64_t batches) {
    const int64_t before = counts().host_waits;
    model.fit(rows.take(batches), {.epochs = 1, .verbose = 0});
    return counts().host_waits - before;
  };
  waits_of(2);
  EXPECT_EQ(waits_of(40), waits_of(10));
}

}  // namespace
}  // namespace strata::parity
