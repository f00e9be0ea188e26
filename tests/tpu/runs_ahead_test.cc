// Runs are started and not waited for: the next one's inputs are copied while the cores compute.
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "strata/data/dataset.h"
#include "strata/graph/function.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/keras/training.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/tpu_strategy.h"
#include "support/expect_error.h"
#include "tpu/cores.h"

namespace strata {
namespace {

using at::Tensor;

constexpr int64_t kSide = 512;

/// Keeps a core at work for long, and writes a variable.
void long_step(Variable& state, const Tensor& x) {
  Tensor value = x + state.value();
  for (int i = 0; i < 60; ++i) value = at::matmul(value, value).tanh();
  state.assign_add(value);
}

struct LongRuns {
  LongRuns(int replicas, int64_t runs_in_flight,
           std::chrono::milliseconds timeout = std::chrono::minutes(30))
      : replicas_(replicas),
        strategy(test::cores(), {.num_replicas = replicas,
                                 .seed = 1,
                                 .timeout = timeout,
                                 .runs_in_flight = runs_in_flight}),
        state(strategy.scope([] {
          return Variable(at::zeros({kSide, kSide}),
                          {.trainable = false, .aggregation = VariableAggregation::kMean});
        })) {}

  void run(int count) {
    const auto step = function([this](const Tensor& x) { long_step(state, x); }, {.name = "long"});
    for (int i = 0; i < count; ++i) {
      std::vector<Tensor> x;
      for (int r = 0; r < replicas_; ++r) {
        x.push_back((at::arange(kSide * kSide) * (0.1 * (i + 1) + r)).sin().view({kSide, kSide}));
      }
      strategy.run(step, PerReplica<Tensor>(x));
    }
  }

  int replicas_;
  TPUStrategy strategy;
  Variable state;
};

TEST(TpuRunsAheadTest, InputsAreCopiedBeforeTheLastRunHasEnded) {
  STRATA_NEEDS_PJRT_PLUGIN();
  LongRuns runs(/*replicas=*/2, /*runs_in_flight=*/2);
  runs.run(4);
  EXPECT_GT(runs.strategy.runs_ahead_count(), 0);
  EXPECT_LE(runs.strategy.runs_ahead_count(), 3);
  EXPECT_EQ(runs.strategy.compilation_count(), 1);
}

TEST(TpuRunsAheadTest, SoDoesFit) {
  STRATA_NEEDS_PJRT_PLUGIN();
  TPUStrategy strategy(test::cores(), {.num_replicas = 2, .seed = 1});
  keras::Model model = strategy.scope([] {
    keras::Sequential made({layers::Dense(1024, "relu"), layers::Dense(1024, "relu"),
                            layers::Dense(1024, "relu"), layers::Dense(4)});
    made.compile({.optimizer = optimizers::SGD({.learning_rate = 0.01}),
                  .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                  .steps_per_execution = 2});
    return keras::Model(made);
  });
  const int64_t rows = 16 * 256;
  const auto data =
      data::Dataset::from_tensor_slices(
          data::Example{at::arange(rows * 8).sin().view({rows, 8}), at::arange(rows).remainder(4)})
          .batch(256);
  model.fit(data, {.verbose = 0});
  EXPECT_GT(strategy.runs_ahead_count(), 0);
  EXPECT_LT(strategy.runs_ahead_count(), 8);
}

TEST(TpuRunsAheadTest, TheNumberOfRunsInFlightChangesNoBits) {
  STRATA_NEEDS_PJRT_PLUGIN();
  std::vector<Tensor> states;
  for (const int64_t runs_in_flight : {1, 2, 5}) {
    LongRuns runs(/*replicas=*/2, runs_in_flight);
    runs.run(6);
    states.push_back(runs.state.value().clone());
  }
  EXPECT_GT(states[0].abs().sum().item<float>(), 0);
  EXPECT_TRUE(at::equal(states[0], states[1]));
  EXPECT_TRUE(at::equal(states[0], states[2]));
}

TEST(TpuRunsAheadTest, AnErrorNamesItsRunAtTheNextWait) {
  STRATA_NEEDS_PJRT_PLUGIN();
  LongRuns runs(/*replicas=*/1, /*runs_in_flight=*/2, std::chrono::milliseconds(1));
  runs.run(2);
  expect_error_containing([&] { runs.strategy.fetch(); }, ErrorCode::kDeadlineExceeded,
                          "[tpu_strategy] run 1, 1 step of long: [pjrt] wait for a run: not done "
                          "after ");
}

TEST(TpuRunsAheadTest, NoRunsInFlightAreRefused) {
  STRATA_NEEDS_PJRT_PLUGIN();
  expect_error_containing(
      [] { TPUStrategy strategy(test::cores(), {.num_replicas = 1, .runs_in_flight = 0}); },
      ErrorCode::kInvalidArgument, "got runs_in_flight 0; expected 1 or more");
}

}  // namespace
}  // namespace strata
