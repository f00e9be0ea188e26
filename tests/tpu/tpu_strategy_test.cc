// TPUStrategy in loops of one's own, on virtual devices of XLA's compiler for CPUs, beside MirroredStrategy.
#include "strata/strategies/tpu_strategy.h"

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint.h"
#include "strata/core/file_system.h"
#include "strata/graph/function.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/test_devices.h"
#include "tpu/cores.h"

namespace strata {
namespace {

using at::Tensor;

constexpr int kReplicas = 4;
constexpr double kSame = 1e-12;

std::unique_ptr<Strategy> mirrored() {
  return std::make_unique<MirroredStrategy>(
      MirroredOptions{.devices = test::test_devices(kReplicas), .seed = 1});
}
std::unique_ptr<TPUStrategy> on_cores() {
  return std::make_unique<TPUStrategy>(test::cores(),
                                       TPUOptions{.num_replicas = kReplicas, .seed = 1});
}

Tensor numbers(at::IntArrayRef sizes, double step) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return (at::arange(count, at::kDouble) * step).sin().reshape(sizes);
}

/// A matrix and a vector, trained to map rows of a fixed table to others.
struct Regression {
  explicit Regression(Strategy& strategy)
      : weight(strategy.scope([] {
          return Variable(numbers({3, 2}, 1.7), {.name = "weight"});
        })),
        bias(strategy.scope([] { return Variable(numbers({2}, 0.9), {.name = "bias"}); })) {
    for (int r = 0; r < kReplicas; ++r) {
      x.push_back(numbers({5, 3}, 0.37 + r));
      y.push_back(numbers({5, 2}, 0.71 + r));
    }
  }

  Tensor loss(const Tensor& inputs, const Tensor& labels) const {
    return (at::matmul(inputs, weight.value()) + bias.value() - labels).square().sum() /
           (5.0 * kReplicas);
  }

  Variable weight, bias;
  std::vector<Tensor> x, y;
};

using MakeOptimizer = std::function<std::unique_ptr<optimizers::Optimizer>()>;

struct Trained {
  Tensor weight, bias, losses;
  std::vector<Tensor> slots;
};

Trained train(Strategy& strategy, const MakeOptimizer& make, int steps) {
  const Regression regression(strategy);
  const auto optimizer = make();
  optimizer->build({regression.weight, regression.bias});
  const auto step = function([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = regression.loss(x, y);
    optimizer->minimize(loss);
    return loss.detach();
  });
  std::vector<Tensor> losses;
  for (int i = 0; i < steps; ++i) {
    const auto each =
        strategy.run(step, PerReplica<Tensor>(regression.x), PerReplica<Tensor>(regression.y));
    losses.push_back(strategy.reduce(ReduceOp::kSum, each));
  }
  Trained trained{.weight = regression.weight.value().clone(),
                  .bias = regression.bias.value().clone(),
                  .losses = at::stack(losses),
                  .slots = {}};
  for (const auto& [name, slot] : optimizer->slots()) trained.slots.push_back(slot.clone());
  return trained;
}

void expect_same(const Trained& a, const Trained& b) {
  EXPECT_LE((a.weight - b.weight).abs().max().item<double>(), kSame);
  EXPECT_LE((a.bias - b.bias).abs().max().item<double>(), kSame);
  EXPECT_LE((a.losses - b.losses).abs().max().item<double>(), kSame);
  ASSERT_EQ(a.slots.size(), b.slots.size());
  for (size_t i = 0; i < a.slots.size(); ++i) {
    EXPECT_LE((a.slots[i] - b.slots[i]).abs().max().item<double>(), kSame) << "slot " << i;
  }
}

template <typename Optimizer, typename Options>
MakeOptimizer make(const Options& options) {
  return [options] { return std::make_unique<Optimizer>(options); };
}

struct OptimizerCase {
  std::string name;
  MakeOptimizer make;
};

std::vector<OptimizerCase> optimizer_cases() {
  using namespace optimizers;
  const auto decay = schedules::ExponentialDecay{0.05, 2, 0.7};
  return {
      {"Sgd", make<SGD>(SGDOptions{.learning_rate = 0.05})},
      {"SgdSchedule", make<SGD>(SGDOptions{.learning_rate = decay})},
      {"Momentum", make<SGD>(SGDOptions{.learning_rate = 0.05, .momentum = 0.9})},
      {"Nesterov", make<SGD>(SGDOptions{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true})},
      {"Adam", make<Adam>(AdamOptions{.learning_rate = 0.05})},
      {"Amsgrad", make<Adam>(AdamOptions{.learning_rate = 0.05, .amsgrad = true})},
      {"AdamW", make<AdamW>(AdamWOptions{.learning_rate = 0.05, .weight_decay = 0.1})},
      {"Adamax", make<Adamax>(AdamaxOptions{.learning_rate = 0.05})},
      {"Nadam", make<Nadam>(NadamOptions{.learning_rate = 0.05})},
      {"Lamb", make<Lamb>(LambOptions{.learning_rate = 0.05})},
      {"Lars", make<LARS>(LARSOptions{.learning_rate = 0.5, .eeta = 0.1, .weight_decay = 0.1})},
      {"LarsNesterov", make<LARS>(LARSOptions{.learning_rate = 0.5,
                                              .eeta = 0.1,
                                              .epsilon = 0.01,
                                              .nesterov = true,
                                              .skip_list = {"bias"},
                                              .weight_decay = 0.1,
                                              .global_clipnorm = 0.3})},
      {"ScheduleFreeAdamW", make<ScheduleFreeAdamW>(ScheduleFreeAdamWOptions{
                                .learning_rate = 0.05, .warmup_steps = 3, .weight_decay = 0.1})},
      {"Lion", make<Lion>(LionOptions{.learning_rate = 0.01})},
      {"Adagrad", make<Adagrad>(AdagradOptions{.learning_rate = 0.05})},
      {"Adadelta", make<Adadelta>(AdadeltaOptions{.learning_rate = 0.5})},
      {"Adafactor", make<Adafactor>(AdafactorOptions{.learning_rate = 0.05})},
      {"Ftrl", make<Ftrl>(FtrlOptions{.learning_rate = 0.05,
                                      .l1_regularization_strength = 0.01,
                                      .l2_regularization_strength = 0.02})},
      {"RmsProp", make<RMSprop>(RMSpropOptions{.learning_rate = 0.05})},
      {"RmsPropAll",
       make<RMSprop>(RMSpropOptions{.learning_rate = 0.05, .momentum = 0.5, .centered = true})},
      {"ClipNorm", make<SGD>(SGDOptions{.learning_rate = 0.05, .clipnorm = 0.1})},
      {"ClipGlobalNorm", make<SGD>(SGDOptions{.learning_rate = 0.05, .global_clipnorm = 0.1})},
      {"ClipValue", make<SGD>(SGDOptions{.learning_rate = 0.05, .clipvalue = 0.02})},
      {"Average",
       make<Adam>(AdamOptions{.learning_rate = 0.05, .use_ema = true, .ema_momentum = 0.7})},
      {"AverageOverwrites", make<SGD>(SGDOptions{.learning_rate = 0.05,
                                                 .momentum = 0.9,
                                                 .use_ema = true,
                                                 .ema_momentum = 0.7,
                                                 .ema_overwrite_frequency = 2})},
      {"Accumulation",
       make<Adam>(AdamOptions{.learning_rate = 0.05, .gradient_accumulation_steps = 2})},
      {"AccumulationOfAll", make<Nadam>(NadamOptions{.learning_rate = decay,
                                                     .weight_decay = 0.1,
                                                     .global_clipnorm = 0.2,
                                                     .use_ema = true,
                                                     .ema_momentum = 0.7,
                                                     .ema_overwrite_frequency = 2,
                                                     .gradient_accumulation_steps = 2})},
  };
}

class TpuOptimizersTest : public testing::TestWithParam<OptimizerCase> {};

TEST_P(TpuOptimizersTest, StepsAsMirroredStrategyDoes) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto one = mirrored();
  const auto other = on_cores();
  expect_same(train(*one, GetParam().make, 5), train(*other, GetParam().make, 5));
  EXPECT_EQ(other->compilation_count(), 1);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TpuOptimizersTest, testing::ValuesIn(optimizer_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(TpuStrategyTest, WhatTheProgramWritesBetweenStepsCounts) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto strategy = on_cores();
  const Regression regression(*strategy);
  optimizers::SGD sgd({regression.weight, regression.bias}, {.learning_rate = 0});
  const auto step = function([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = regression.loss(x, y);
    sgd.minimize(loss);
    return loss.detach();
  });
  const auto loss = [&] {
    return strategy
        ->reduce(ReduceOp::kSum, strategy->run(step, PerReplica<Tensor>(regression.x),
                                               PerReplica<Tensor>(regression.y)))
        .item<double>();
  };
  const double before = loss();
  EXPECT_EQ(loss(), before);  // a learning rate of 0
  Variable bias = regression.bias;
  bias.assign(bias.value() + 3);
  EXPECT_GT(loss(), before + 1);
  bias.assign(bias.value() - 3);
  EXPECT_NEAR(loss(), before, 1e-9);
}

/// Parts of different sizes: the replicas compute them here, with the values that the cores have.
TEST(TpuStrategyTest, AnUnevenBatchCountsAsItShould) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto run = [](Strategy& strategy) {
    const Regression regression(strategy);
    optimizers::Adam adam({regression.weight, regression.bias}, {.learning_rate = 0.05});
    const auto step =
        function([&](const Tensor& x, const Tensor& y) { adam.minimize(regression.loss(x, y)); });
    for (const int64_t rows : {5, 5, 2, 5}) {
      std::vector<Tensor> x = regression.x, y = regression.y;
      x.back() = x.back().slice(0, 0, rows);
      y.back() = y.back().slice(0, 0, rows);
      strategy.run(step, PerReplica<Tensor>(x), PerReplica<Tensor>(y));
    }
    return regression.weight.value().clone();
  };
  const auto one = mirrored();
  const auto other = on_cores();
  EXPECT_LE((run(*one) - run(*other)).abs().max().item<double>(), kSame);
}

TEST(TpuStrategyTest, CheckpointsGoBothWays) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "model");
  const auto steps = [](Strategy& strategy, int count, const std::string& from,
                        const std::string& to) {
    const Regression regression(strategy);
    optimizers::Adam adam({regression.weight, regression.bias}, {.learning_rate = 0.05});
    Checkpoint checkpoint(
        {{"weight", regression.weight}, {"bias", regression.bias}, {"adam", adam}});
    if (!from.empty()) checkpoint.restore(from);
    const auto step =
        function([&](const Tensor& x, const Tensor& y) { adam.minimize(regression.loss(x, y)); });
    for (int i = 0; i < count; ++i) {
      strategy.run(step, PerReplica<Tensor>(regression.x), PerReplica<Tensor>(regression.y));
    }
    if (!to.empty()) checkpoint.write(to);
    return regression.weight.value().clone();
  };
  const auto plain = mirrored();
  const Tensor expected = steps(*plain, 9, "", "");
  const auto first = on_cores();
  steps(*first, 3, "", path + "_1");
  const auto second = mirrored();
  steps(*second, 3, path + "_1", path + "_2");
  const auto third = on_cores();
  const Tensor weight = steps(*third, 3, path + "_2", "");
  EXPECT_LE((weight - expected).abs().max().item<double>(), kSame);
}

/// Rows of all replicas, and what replicas write to one variable.
std::vector<Tensor> gathered_and_written(Strategy& strategy) {
  std::vector<PerReplica<Tensor>> results;
  std::vector<Variable> variables;
  std::vector<Tensor> x;
  for (int r = 0; r < kReplicas; ++r) x.push_back(numbers({3, 2}, 0.37 + r));
  for (const auto aggregation : {VariableAggregation::kSum, VariableAggregation::kMean,
                                 VariableAggregation::kOnlyFirstReplica}) {
    const Variable variable = strategy.scope([&] {
      return Variable(numbers({3, 2}, 1.7), {.trainable = false, .aggregation = aggregation});
    });
    const auto step = function([&](const Tensor& rows) {
      Variable(variable).assign_add(rows);
      Variable(variable).assign_sub(rows * 0.5);
      const Tensor all = get_replica_context()->all_gather(rows.t(), 1);
      return all * all.sum() + variable.value().sum();
    });
    for (int i = 0; i < 2; ++i) results.push_back(strategy.run(step, PerReplica<Tensor>(x)));
    variables.push_back(variable);
  }
  std::vector<Tensor> all;
  for (const auto& each : results) {
    for (int r = 0; r < kReplicas; ++r) all.push_back(each.get(r));
  }
  for (const Variable& variable : variables) all.push_back(variable.value());
  return all;
}

TEST(TpuStrategyTest, GathersRowsAndWritesToVariables) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto expected = gathered_and_written(*mirrored());
  const auto found = gathered_and_written(*on_cores());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << i;
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), kSame) << i;
  }
}

TEST(TpuStrategyTest, WhatCannotBeCompiledIsNamed) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto strategy = on_cores();
  const Regression regression(*strategy);
  const PerReplica<Tensor> x(regression.x);
  const auto unknown = function([](const Tensor& each) { return at::linalg_svdvals(each); });
  expect_error_containing([&] { strategy->run(unknown, x); }, ErrorCode::kUnimplemented, "svd");
  optimizers::SGD scaling({regression.weight}, {.learning_rate = 0.1, .loss_scale_factor = 128});
  const auto scaled = function([&](const Tensor& each) {
    scaling.minimize(at::matmul(each, regression.weight.value()).sum());
  });
  expect_error_containing([&] { strategy->run(scaled, x); }, ErrorCode::kUnimplemented,
                          "scales the loss");
  expect_error_containing([&] { strategy->run([](const Tensor& each) { return each; }, x); },
                          ErrorCode::kFailedPrecondition, "strata::function");
}

TEST(TpuStrategyTest, MoreReplicasThanCoresAreRefused) {
  STRATA_NEEDS_PJRT_PLUGIN();
  expect_error_containing([] { TPUStrategy strategy(test::cores(), {.num_replicas = 9}); },
                          ErrorCode::kInvalidArgument, "got num_replicas 9; expected 1 to 8");
}

}  // namespace
}  // namespace strata
