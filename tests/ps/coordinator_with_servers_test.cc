// The whole of asynchronous training: a coordinator has workers take steps on what parameter
// servers hold; workers and servers are lost.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "ps/worker_threads.h"
#include "support/replicas.h"

namespace strata::ps {
namespace {

using test::PsCluster;
using test::soon;
using test::WorkerThreads;
using namespace std::chrono_literals;

constexpr int64_t kElements = 100;

/// A worker's way to the servers, and the values as it knows them.
struct Model {
  std::unique_ptr<Client> client;
  std::shared_ptr<FlatTable> table;
  at::Tensor values;
};

void register_all(FunctionRegistry& registry, PsCluster& servers, int num_servers) {
  registry.add_resource("model", [&servers, num_servers](const CallContext& context) {
    Model model = {.client = servers.client(context.worker().index),
                   .table = nullptr,
                   .values = at::zeros({kElements})};
    model.table = model.client->create_flat(
        {.name = "weights", .parts = cut_evenly(kElements, sizeof(float), num_servers)},
        model.values, context.worker().index == 0);
    return model;
  });
  // One step of gradient descent to `goal`, with values that may be others' by now.
  registry.add("step", [](Model& model, double goal) {
    model.table->pull(model.values);
    const at::Tensor gradient = model.values - goal;
    model.table->push(gradient, {.learning_rate = 0.1});
    return gradient.abs().max().item<double>();
  });
  registry.add("version", [](Model& model) { return model.table->counters().at(0).version; });
}

TEST(CoordinatorWithServersTest, WorkersTrainAndALostOneStopsNobody) {
  PsCluster servers(2, 2);
  WorkerThreads workers(2);
  register_all(workers.registry(), servers, 2);
  workers.start();
  const auto coordinator = workers.coordinator();
  coordinator->wait_for_workers(2, soon());
  const PerWorkerValues model = coordinator->create_per_worker("model");
  // A gradient may be of values that were others' long ago, and the last one to arrive may be.
  // One step at a time then takes back what it did.
  const auto distance_after_steps_by_one = [&](double goal) {
    double distance = 0;
    for (int i = 0; i < 40; ++i) {
      distance = coordinator->schedule("step", {model, goal}).get<double>(soon());
    }
    return distance;
  };
  for (int i = 0; i < 100; ++i) coordinator->schedule("step", {model, 3.0});
  coordinator->join(soon());
  EXPECT_LT(distance_after_steps_by_one(3.0), 0.1);
  // One that comes back meets the servers anew, and goes on with their values.
  workers.stop(1);
  for (int i = 0; i < 100; ++i) coordinator->schedule("step", {model, -1.0});
  workers.start(1);
  coordinator->join(soon());
  EXPECT_LT(distance_after_steps_by_one(-1.0), 0.1);
  EXPECT_GE(coordinator->schedule("version", {model}).get<int64_t>(soon()), 200);
  EXPECT_EQ(coordinator->counts().failed, 0U);
  coordinator->shutdown(soon());
}

// Rule 70: Unavailable, again and again.
TEST(CoordinatorWithServersTest, ALostServerIsRaisedAgainAndAgain) {
  PsCluster servers(2, 2, {.timeout = 20s});
  WorkerThreads workers(2);
  register_all(workers.registry(), servers, 2);
  workers.start();
  const auto coordinator = workers.coordinator();
  const PerWorkerValues model = coordinator->create_per_worker("model");
  for (int i = 0; i < 10; ++i) coordinator->schedule("step", {model, 1.0});
  coordinator->join(soon());
  servers.end_server(1);
  for (int round = 0; round < 3; ++round) {
    std::vector<RemoteValue<>> steps;
    EXPECT_TRUE(
        throws(ErrorCode::kUnavailable, {"[ps] step on /job:worker/task:", "/job:ps/task:1"}, [&] {
          for (int i = 0; i < 10; ++i) {
            steps.push_back(coordinator->schedule("step", {model, 1.0}));
          }
          coordinator->join(soon());
        }));
    for (const RemoteValue<>& each : steps) EXPECT_TRUE(each.done());
  }
  EXPECT_EQ(coordinator->counts().lost, 0U);  // no worker
  // When it has been started again, new clients meet it.
  servers.start_server(1);
  const PerWorkerValues anew = coordinator->create_per_worker("model");
  for (int i = 0; i < 100; ++i) coordinator->schedule("step", {anew, 1.0});
  coordinator->join(soon());
  EXPECT_LT(coordinator->schedule("step", {anew, 1.0}).get<double>(soon()), 0.1);
  coordinator->shutdown(soon());
}

}  // namespace
}  // namespace strata::ps
