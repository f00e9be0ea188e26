// The loss scale's rule, by itself: tf.keras.mixed_precision.LossScaleOptimizer's, which Keras 3
// lacks the bounds of.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/one_device_strategy.h"

namespace strata::optimizers {
namespace {

TEST(LossScaleTest, FallsToOneAndNoFurther) {
  OneDeviceStrategy strategy;
  std::vector<Variable> weights;
  strategy.scope([&] { weights.emplace_back(at::ones({2})); });
  LossScaleOptimizer optimizer(SGD(weights, {.learning_rate = 0.5}), {.initial_scale = 32768});
  const auto step = [&](double gradient) {
    strategy.run([&] { optimizer.minimize((weights[0].value() * gradient).sum()); });
  };
  // 142 in a row took Keras 3's scale to 0, and the next good step gave NaN.
  for (int i = 0; i < 142; ++i) step(std::numeric_limits<double>::infinity());
  EXPECT_EQ(optimizer.loss_scale(), 1);
  EXPECT_EQ(optimizer.iterations(), 0);
  step(1);
  EXPECT_EQ(optimizer.iterations(), 1);
  EXPECT_TRUE(weights[0].value().equal(at::full({2}, 0.5)));
}

TEST(LossScaleTest, GrowsWhileFloatsHoldIt) {
  OneDeviceStrategy strategy;
  std::vector<Variable> weights;
  strategy.scope([&] { weights.emplace_back(at::ones({2})); });
  const double large = std::ldexp(1.0, 125);
  LossScaleOptimizer optimizer(SGD(weights, {.learning_rate = 0}),
                               {.initial_scale = large, .dynamic_growth_steps = 1});
  for (int i = 0; i < 20; ++i) {
    strategy.run([&] { optimizer.minimize((weights[0].value() * 1e-10).sum()); });
  }
  EXPECT_TRUE(std::isfinite(optimizer.loss_scale()));
  EXPECT_GE(optimizer.loss_scale(), large);
}

TEST(LossScaleTest, DoublesAfterSoManyGoodSteps) {
  OneDeviceStrategy strategy;
  std::vector<Variable> weights;
  strategy.scope([&] { weights.emplace_back(at::ones({2})); });
  LossScaleOptimizer optimizer(SGD(weights, {.learning_rate = 0}),
                               {.initial_scale = 8, .dynamic_growth_steps = 3});
  const auto scale_after = [&](double gradient) {
    strategy.run([&] { optimizer.minimize((weights[0].value() * gradient).sum()); });
    return optimizer.loss_scale();
  };
  EXPECT_EQ(scale_after(1), 8);
  EXPECT_EQ(scale_after(1), 8);
  EXPECT_EQ(scale_after(1), 16);
  EXPECT_EQ(scale_after(std::numeric_limits<double>::quiet_NaN()), 8);
  EXPECT_EQ(scale_after(1), 8);
}

}  // namespace
}  // namespace strata::optimizers
