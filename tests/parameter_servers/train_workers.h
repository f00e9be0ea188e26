#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ps/ps_cluster.h"
#include "strata/cluster/resolvers.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/variable.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "strata/strategies/server_embedding.h"
#include "support/replicas.h"

namespace strata::test {

/// Runs `body` as every worker of a cluster, each under a strategy of its own.
inline std::vector<Status> train_workers(
    PsCluster& cluster, const std::function<void(ParameterServerStrategy&, int worker)>& body,
    const ParameterServerStrategyOptions& options = {}) {
  set_logical_devices("cpu", 2);
  return cluster.run_tasks([&](const cluster::TaskId& task, cluster::ServerOptions server) {
    ParameterServerStrategyOptions own = options;
    own.cluster_resolver = std::make_shared<cluster::SimpleResolver>(
        cluster.spec(), cluster::SimpleOptions{.task_type = task.job, .task_id = task.index});
    if (own.devices.empty()) own.devices = {"cpu:0"};
    own.seed = 5;
    own.server = std::move(server);
    own.replicas.threads_per_replica = 1;
    ParameterServerStrategy strategy(own);
    body(strategy, task.index);
  });
}

/// What one worker has trained.
struct WeightAndRows {
  at::Tensor weight;
  at::Tensor rows;
};

/// Eight steps of a weight and a table's rows with one worker, two servers and backups.
/// @param lost  One of the servers ends after the fourth.
inline WeightAndRows train_weight_and_rows(ParameterServerStrategyOptions options, bool lost) {
  WeightAndRows trained;
  PsCluster cluster(2, 1, {.liveness = std::chrono::seconds(4)});
  options.backup = true;
  PsCluster::expect_ok(train_workers(
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
        trained = {weight.value().clone(), table.table().read()};
      },
      options));
  return trained;
}

}  // namespace strata::test
