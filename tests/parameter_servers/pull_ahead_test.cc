// ParameterServerStrategyOptions::pull_ahead: the tasks are threads on a network in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ps/ps_cluster.h"
#include "strata/cluster/simple_resolver.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/variable.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "strata/strategies/server_embedding.h"
#include "support/replicas.h"

namespace strata {
namespace {

using test::PsCluster;

/// Runs `body` as every worker of a cluster, each under a strategy that pulls ahead.
void train_ahead(PsCluster& cluster,
                 const std::function<void(ParameterServerStrategy&, int worker)>& body,
                 const ParameterServerStrategyOptions& options = {}) {
  set_logical_devices("cpu", 2);
  PsCluster::expect_ok(
      cluster.run_tasks([&](const cluster::TaskId& task, cluster::ServerOptions server) {
        ParameterServerStrategyOptions own = options;
        own.cluster_resolver = std::make_shared<cluster::SimpleResolver>(
            cluster.spec(), cluster::SimpleOptions{.task_type = task.job, .task_id = task.index});
        if (own.devices.empty()) own.devices = {"cpu:0"};
        own.server = std::move(server);
        own.replicas.threads_per_replica = 1;
        own.pull_ahead = true;
        ParameterServerStrategy strategy(own);
        body(strategy, task.index);
      }));
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
  at::Tensor weights[2];
  at::Tensor rows[2];
  for (const bool lost : {false, true}) {
    PsCluster cluster(2, 1, {.liveness = std::chrono::seconds(4)});
    train_ahead(
        cluster,
        [&](ParameterServerStrategy& strategy, int) {
          const Variable weight = strategy.scope([] { return Variable(at::ones({100})); });
          optimizers::Adam adam({weight}, {.learning_rate = 0.1});
          const ServerEmbedding table(
              strategy,
              {.rows = 20, .width = 3, .optimizer = optimizers::Adagrad({.learning_rate = 0.1})});
          for (int64_t step = 0; step < 8; ++step) {
            if (lost && step == 4) cluster.end_server(1);
            strategy.run([&] {
              const at::Tensor looked_up = table.lookup(at::arange(step, 20, 2, at::kLong));
              adam.minimize(weight.value().square().sum() + (looked_up - 1).square().sum());
            });
          }
          weights[lost ? 1 : 0] = weight.value().clone();
          rows[lost ? 1 : 0] = table.table().read();
        },
        {.backup = true});
  }
  EXPECT_TRUE(weights[0].equal(weights[1]));
  EXPECT_LT(weights[0].max().item<float>(), 0.6);
  EXPECT_TRUE(rows[0].equal(rows[1]));
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
