// What recording ResNet-50 costs, whose convolutions and normalizations lie as their kernels want.
// STRATA_TEST_IMAGES=32x224 takes as many images of this size in place of the small ones.
#include <gtest/gtest.h>

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "strata/graph/function.h"
#include "strata/graph/graph.h"
#include "strata/keras/applications.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"
#include "support/tensor_memory.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Cost {
  double milliseconds;
  int64_t allocated;
};

TEST(RecordingCostTest, ResNet50TakesNoMemoryForActivations) {
  int images = 4, side = 64;
  if (const char* const set = std::getenv("STRATA_TEST_IMAGES")) {
    ASSERT_EQ(std::sscanf(set, "%dx%d", &images, &side), 2);
  }
  MirroredStrategy strategy({.devices = cpus(1), .seed = 1});
  const keras::Model net = strategy.scope([&] {
    return applications::ResNet50(
        {.input_shape = {side, side, 3}, .classifier_activation = "linear"});
  });
  std::vector<Variable> variables;
  for (const keras::Weight& weight : net->weights()) {
    if (weight.variable.trainable()) variables.push_back(weight.variable);
  }
  optimizers::SGD sgd(variables, {.learning_rate = 0.01, .momentum = 0.9});
  const auto step = function(
      [&](const at::Tensor& x, const at::Tensor& y) {
        const at::Tensor loss = compute_average_loss(
            losses::sparse_categorical_crossentropy(y, net(x), {.from_logits = true}), images);
        sgd.minimize(loss);
        return loss;
      },
      {.name = "resnet50"});
  const at::Tensor x = at::randn({images, side, side, 3});
  const at::Tensor y = at::randint(1000, {images}, at::kLong);
  const auto call = [&] {
    Cost cost{};
    strategy.run([&] {
      const auto begin = Clock::now();
      cost.allocated = test::tensor_memory_of([&] { step(x, y); }).allocated;
      cost.milliseconds = Milliseconds(Clock::now() - begin).count();
    });
    return cost;
  };
  const Cost first = call();
  const Cost recorded_twice = call();
  const Cost recorded = call();
  const Cost replayed = call();
  EXPECT_EQ(step.tracing_count(), 1);
  EXPECT_EQ(sgd.iterations(), 4);
  // A replay makes all activations and gradients; a recording, none.
  EXPECT_GT(replayed.allocated, int64_t{images} * side * side * 64 * 4);
  EXPECT_LT(recorded.allocated - replayed.allocated, replayed.allocated / 100);
  EXPECT_LT(recorded_twice.allocated - replayed.allocated, replayed.allocated / 100);
  std::cout << images << " images of " << side << " x " << side << ", ms: first call "
            << first.milliseconds << ", with two recordings " << recorded_twice.milliseconds
            << ", with one " << recorded.milliseconds << ", replayed " << replayed.milliseconds
            << "; " << step.graphs().at(0)->nodes.size() << " nodes\n";
}

}  // namespace
}  // namespace strata
