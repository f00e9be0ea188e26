// Sums of gradients run while backward computes: in modelled time.

#include <gtest/gtest.h>

#include <ATen/ops/ones.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/emulated/device.h"
#include "gpu/emulated/order.h"
#include "parity/models.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/strategies/mirrored_strategy.h"

namespace strata::parity {
namespace {

using test::emulated_gpu::Cost;

constexpr int kLayers = 20;
constexpr int64_t kWidth = 64;
constexpr int kBatches = 4;

/// Products take a second; `copies` is what a byte takes between cards.
double seconds_of_a_step(double product, double copied_byte) {
  MirroredStrategy strategy(
      {.devices = {"gpu:0", "gpu:1"},
       .communication_options = {.bytes_per_pack = kWidth * kWidth * 4}});  // a layer
  const keras::Model model = strategy.scope([] {
    keras::Sequential net(keras::Input({kWidth}), {});
    for (int i = 0; i < kLayers; ++i) net.add(layers::Dense(kWidth, "relu"));
    net.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
    return net;
  });
  const at::Tensor x = at::ones({8 * kBatches, kWidth});
  const auto rows = data::Dataset::from_tensor_slices({x, x}).batch(8);
  model.fit(rows, {.verbose = 0});  // the first step makes the buckets
  test::emulated_gpu::set_costs([&](const Cost& cost) {
    if (cost.name == "copy between devices") {
      return copied_byte * static_cast<double>(cost.bytes_written);
    }
    return cost.name.find("mm") != std::string_view::npos ? product : 0.0;
  });
  model.fit(rows, {.verbose = 0});
  const auto spans = test::emulated_gpu::spans();
  test::emulated_gpu::set_costs(nullptr);
  double begin = spans.front().begin;
  double end = begin;
  for (const auto& span : spans) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  return (end - begin) / kBatches;
}

TEST(GpuOverlapTest, AStepTakesTheLongerOfBackwardAndCommunication) {
  const double compute = seconds_of_a_step(1, 0);
  EXPECT_NEAR(compute, 3 * kLayers - 1, 1);  // forward, and two products a layer in backward
  // Each card gets half of what the other has, and then the other half's sum.
  const double bytes = (kWidth * kWidth + kWidth) * 4.0 * kLayers;
  const double backward = 2 * kLayers - 1;
  const double communication = seconds_of_a_step(0, backward / bytes);
  EXPECT_GT(communication, 0.9 * backward);
  const double both = seconds_of_a_step(1, backward / bytes);
  std::printf("compute %.1f s, communication %.1f s, a step %.1f s\n", compute, communication,
              both);
  EXPECT_LE(both, 1.1 * std::max(compute, communication));
}

}  // namespace
}  // namespace strata::parity
