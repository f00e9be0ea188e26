// ParameterServerStrategyOptions::pull_ahead: the tasks are threads on a network in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "parameter_servers/train_workers.h"

namespace strata {
namespace {

using test::PsCluster;

/// Runs `body` as every worker of a cluster, each under a strategy that pulls ahead.
void train_ahead(PsCluster& cluster,
                 const std::function<void(ParameterServerStrategy&, int worker)>& body,
                 ParameterServerStrategyOptions options = {}) {
  options.pull_ahead = true;
  PsCluster::expect_ok(test::train_workers(cluster, body, options));
}

/// The gradient of each step is its variable's value.
void step_of(ParameterServerStrategy& strategy, const Variable& variable, optimizers::SGD& sgd) {
  strategy.run([&] { sgd.minimize(variable.value().square().sum() / 2); });
}

TEST(PullAheadTest, AStepComputesWithTheValuesBehindThePushBeforeTheLast) {
  for (const std::vector<std::string>& devices :
       {std::vector<std::string>{"cpu:0"}, std::vector<std::string>{"cpu:0", "cpu:1"}}) {
    PsCluster cluster(2, 1);
    train_ahead(cluster,
                [&](ParameterServerStrategy& strategy, int) {
                  const Variable variable =
                      strategy.scope([] { return Variable(at::ones({40}, at::kDouble)); });
                  optimizers::SGD sgd({variable}, {.learning_rate = 0.25});
                  const double gradients = static_cast<double>(devices.size());
                  std::vector<double> values = {1};  // behind each push
                  for (int step = 1; step <= 8; ++step) {
                    const size_t seen = static_cast<size_t>(std::max(0, step - 2));
                    for (int r = 0; r < static_cast<int>(devices.size()); ++r) {
                      EXPECT_EQ(variable.on_replica(r)[39].item<double>(), values[seen]) << step;
                    }
                    step_of(strategy, variable, sgd);
                    values.push_back(values.back() - 0.25 * (gradients * values[seen]));
                    EXPECT_EQ(sgd.iterations(), step - 1);  // as far as this worker knows
                  }
                },
                {.devices = devices});
  }
}

TEST(PullAheadTest, AnErrorOfAPushIsTheNextStepsAndNothingWasApplied) {
  PsCluster cluster(2, 1);
  train_ahead(cluster, [&](ParameterServerStrategy& strategy, int) {
    const Variable bad = strategy.scope([] { return Variable(at::ones({3}), {.name = "bad"}); });
    optimizers::SGD sgd({bad}, {.learning_rate = 0.5});
    strategy.run([&] { sgd.minimize((bad.value() - 1).sqrt().sum() * at::zeros({})); });
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                       {"not finite from /job:worker/task:0", "nothing of this push was applied",
                        "It is of the variable 'bad'"},
                       [&] { step_of(strategy, bad, sgd); }));
    EXPECT_TRUE(bad.value().equal(at::ones({3})));
    for (int i = 0; i < 2; ++i) step_of(strategy, bad, sgd);
    EXPECT_TRUE(bad.value().equal(at::full({3}, 0.5)));
  });
}

TEST(PullAheadTest, WhatTheProgramWritesBetweenStepsIsNewerThanWhatArrives) {
  PsCluster cluster(1, 1);
  train_ahead(cluster, [&](ParameterServerStrategy& strategy, int) {
    Variable variable = strategy.scope([] { return Variable(at::ones({3})); });
    optimizers::SGD sgd({variable}, {.learning_rate = 0.5});
    for (int i = 0; i < 3; ++i) step_of(strategy, variable, sgd);
    variable.assign(at::full({3}, 8.0));
    step_of(strategy, variable, sgd);
    EXPECT_TRUE(variable.value().equal(at::full({3}, 8.0)));
    step_of(strategy, variable, sgd);
    EXPECT_TRUE(variable.value().equal(at::full({3}, 4.0)));
  });
}

TEST(PullAheadTest, RowsAndALostServerComeBetween) {
  const test::WeightAndRows whole = test::train_weight_and_rows({.pull_ahead = true}, false);
  const test::WeightAndRows with_loss = test::train_weight_and_rows({.pull_ahead = true}, true);
  EXPECT_TRUE(whole.weight.equal(with_loss.weight));
  EXPECT_LT(whole.weight.max().item<float>(), 0.6);
  EXPECT_TRUE(whole.rows.equal(with_loss.rows));
}

TEST(PullAheadTest, SeveralOptimizersHaveAPushUnderWayEach) {
  PsCluster cluster(2, 1);
  train_ahead(cluster, [&](ParameterServerStrategy& strategy, int) {
    const Variable a = strategy.scope([] { return Variable(at::ones({3})); });
    const Variable b = strategy.scope([] { return Variable(at::full({5}, 2.0)); });
    optimizers::SGD first({a}, {.learning_rate = 0.5});
    optimizers::SGD second({b}, {.learning_rate = 0.5});
    for (int i = 0; i < 2; ++i) {
      step_of(strategy, a, first);
      step_of(strategy, b, second);
    }
    EXPECT_TRUE(a.value().equal(at::full({3}, 0.5)));
    EXPECT_TRUE(b.value().equal(at::full({5}, 1.0)));
  });
}

TEST(PullAheadTest, SeveralWorkersAndGradientsOf16Bits) {
  PsCluster cluster(2, 3);
  train_ahead(cluster,
              [&](ParameterServerStrategy& strategy, int) {
                const Variable variable = strategy.scope([] { return Variable(at::ones({1000})); });
                optimizers::SGD sgd({variable}, {.learning_rate = 0.05});
                for (int i = 0; i < 60; ++i) step_of(strategy, variable, sgd);
                EXPECT_LT(variable.value().abs().max().item<float>(), 0.2);
              },
              {.push_precision = ps::PushPrecision::kBFloat16});
}

TEST(PullAheadTest, IsForAsynchronousTrainingAlone) {
  for (const ps::Consistency kind : {ps::Consistency::kBounded, ps::Consistency::kSynchronous}) {
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                       {"got pull_ahead with workers that wait for each other; expected "
                        "Consistency::kAsynchronous"},
                       [&] {
                         ParameterServerStrategy strategy(
                             {.consistency = {.kind = kind}, .pull_ahead = true});
                       }));
  }
}

}  // namespace
}  // namespace strata
