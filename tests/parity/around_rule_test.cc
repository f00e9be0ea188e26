// What an optimizer does around its rule, beside what the golden files and parity tests show:
// averages at the end, accumulation of parts, a loss scale that meets infinities on one replica.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "parity/models.h"
#include "support/expect_error.h"
#include "support/replicas.h"

namespace strata::optimizers {
namespace {

MirroredStrategy make_strategy(int replicas, bool share_storage) {
  set_logical_devices("cpu", 8);
  return MirroredStrategy({.devices = cpus(replicas),
                           .replicas = {.threads_per_replica = 1, .share_storage = share_storage}});
}

/// A variable of ones under `strategy`.
Variable make_variable(Strategy& strategy, const std::string& name = "w") {
  return strategy.scope(
      [&] { return Variable(at::ones({3}, at::kDouble), VariableOptions{.name = name}); });
}

TEST(MovingAverageTest, BecomesTheWeightsAtTheEnd) {
  for (const bool share_storage : {true, false}) {
    MirroredStrategy strategy = make_strategy(3, share_storage);
    const Variable w = make_variable(strategy);
    SGD sgd({w}, {.learning_rate = 1, .use_ema = true, .ema_momentum = 0.5});
    sgd.finalize_variable_values();
    EXPECT_TRUE(w.value().equal(at::ones({3}, at::kDouble))) << "before the first step";
    for (int step = 0; step < 3; ++step) {  // weights 0, -1, -2; averages 0, -0.5, -1.25
      strategy.run([&] { sgd.apply_gradients({at::full({3}, 1.0 / 3, at::kDouble)}); });
    }
    EXPECT_NEAR(w.value()[0].item<double>(), -2, 1e-12);
    sgd.finalize_variable_values();
    for (int r = 0; r < 3; ++r) EXPECT_NEAR(w.on_replica(r)[2].item<double>(), -1.25, 1e-12);
    expect_error_containing([&] { strategy.run([&] { sgd.finalize_variable_values(); }); },
                            ErrorCode::kFailedPrecondition, "finalize_variable_values");
    EXPECT_EQ(sgd.slot_names(), std::vector<std::string>{"average"});
  }
}

TEST(AccumulationTest, AVariableThatOnlyAnEarlierCallUsedIsUpdatedToo) {
  MirroredStrategy strategy = make_strategy(2, true);
  const Variable early = make_variable(strategy, "early"), late = make_variable(strategy, "late"),
                 never = make_variable(strategy, "never");
  SGD sgd({early, late, never},
          {.learning_rate = 1, .weight_decay = 0.5, .gradient_accumulation_steps = 2});
  const at::Tensor half = at::full({3}, 0.5, at::kDouble);
  strategy.run([&] { sgd.apply_gradients({half, {}, {}}); });
  EXPECT_TRUE(early.value().equal(at::ones({3}, at::kDouble)));
  EXPECT_EQ(sgd.iterations(), 1);
  strategy.run([&] { sgd.apply_gradients({{}, half, {}}); });
  // Half of the weights decays; the sum over two replicas is 1, the mean over two calls 0.5.
  EXPECT_TRUE(early.value().equal(at::zeros({3}, at::kDouble)));
  EXPECT_TRUE(late.value().equal(at::zeros({3}, at::kDouble)));
  EXPECT_TRUE(never.value().equal(at::ones({3}, at::kDouble)));
  for (const auto& [name, sum] : sgd.slots()) {
    EXPECT_TRUE(sum.equal(at::zeros({3}, at::kDouble))) << name << " starts anew";
  }
}

TEST(AccumulationTest, EachCallIsDividedByItsOwnWeight) {
  MirroredStrategy strategy = make_strategy(2, false);
  const Variable w = make_variable(strategy);
  SGD sgd({w}, {.learning_rate = 1, .gradient_accumulation_steps = 2});
  const at::Tensor one = at::ones({3}, at::kDouble);
  // Sums of 2 over 4 examples and of 6 over 6: the mean of 0.5 and 1.
  strategy.run([&] { sgd.apply_gradients({one}, {.weight = 2}); });
  strategy.run([&] { sgd.apply_gradients({one * 3}, {.weight = 3}); });
  EXPECT_TRUE(w.value().equal(at::full({3}, 0.25, at::kDouble)));
}

TEST(LossScaleTest, InfinitiesOnOneReplicaStopTheStepOnAll) {
  for (const bool share_storage : {true, false}) {
    MirroredStrategy strategy = make_strategy(3, share_storage);
    const Variable w = make_variable(strategy);
    LossScaleOptimizer optimizer(Nadam({.learning_rate = 0.5}),
                                 {.initial_scale = 8, .dynamic_growth_steps = 2});
    optimizer.build({w});
    const auto number = [&](const std::string& wanted) {
      for (const auto& [name, value] : optimizer.slots()) {
        if (name == wanted) return value.item<double>();
      }
      return -1.0;
    };
    const auto step = [&](double of_replica_1) {
      strategy.run([&] {
        const int id = get_replica_context()->replica_id_in_sync_group();
        optimizer.minimize(w.value().sum() * (id == 1 ? of_replica_1 : 1.0));
      });
    };
    step(1);
    EXPECT_EQ(optimizer.iterations(), 1);
    EXPECT_EQ(number("step_counter"), 1);
    const at::Tensor before = w.value().detach().clone();
    const double u_product = number("u_product");
    for (const double bad :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      step(bad);
      for (int r = 0; r < 3; ++r) EXPECT_TRUE(w.on_replica(r).equal(before));
    }
    EXPECT_EQ(optimizer.iterations(), 1);
    EXPECT_EQ(number("u_product"), u_product);
    EXPECT_EQ(number("dynamic_scale"), 2);
    EXPECT_EQ(optimizer.scale_loss(at::ones({})).item<double>(), 2);
    step(1);
    step(1);
    EXPECT_EQ(number("dynamic_scale"), 4) << "twice after two good steps";
    EXPECT_EQ(number("step_counter"), 0);
    EXPECT_FALSE(w.value().equal(before));
  }
}

TEST(LossScaleTest, AFixedFactorChangesNothingButRounding) {
  const auto train = [](double factor) {
    const Variable w(at::ones({3}, at::kDouble), {.name = "w"});
    Adam adam({w}, {.learning_rate = 0.1, .loss_scale_factor = factor});
    for (int i = 0; i < 4; ++i) adam.minimize((w.value() * w.value()).sum());
    return w.value().detach().clone();
  };
  EXPECT_TRUE(train(1024).equal(train(0)));
  EXPECT_TRUE(at::allclose(train(3), train(0), 1e-12, 1e-12));
}

TEST(OptionsTest, ValuesOutsideTheirRangeAreRefused) {
  expect_error([] { Adam({.use_ema = true, .ema_momentum = 1.5}); }, ErrorCode::kInvalidArgument,
               "[adam] got ema_momentum 1.5; expected a value in [0, 1]");
  expect_error([] { Adam({.ema_overwrite_frequency = -1}); }, ErrorCode::kInvalidArgument,
               "[adam] got ema_overwrite_frequency -1; expected 0 (never) or more");
  expect_error([] { Adam({.loss_scale_factor = -2}); }, ErrorCode::kInvalidArgument,
               "[adam] got loss_scale_factor -2; expected 0 (off) or more");
  expect_error([] { Adam({.gradient_accumulation_steps = 1}); }, ErrorCode::kInvalidArgument,
               "[adam] got gradient_accumulation_steps 1; expected 0 (off), or 2 or more");
  expect_error([] { LossScaleOptimizer(Adam(), {.initial_scale = 0}); },
               ErrorCode::kInvalidArgument,
               "[loss_scale_optimizer] got initial_scale 0; expected more than 0");
  expect_error([] { LossScaleOptimizer(Adam(), {.dynamic_growth_steps = 0}); },
               ErrorCode::kInvalidArgument,
               "[loss_scale_optimizer] got dynamic_growth_steps 0; expected at least 1");
  expect_error([] { LossScaleOptimizer(std::make_unique<LossScaleOptimizer>(Adam())); },
               ErrorCode::kInvalidArgument,
               "[loss_scale_optimizer] got an optimizer that scales the loss already");
  expect_error([] { LossScaleOptimizer(std::unique_ptr<Optimizer>()); },
               ErrorCode::kInvalidArgument,
               "[loss_scale_optimizer] got no optimizer; pass the one whose loss is to be scaled");
}

}  // namespace
}  // namespace strata::optimizers
