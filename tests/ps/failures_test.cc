// What is lost, and what the others see of it.
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <latch>

#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "support/expect_error.h"

namespace strata::ps {
namespace {

using test::PsCluster;
using namespace std::chrono_literals;

constexpr int64_t kElements = 1000;

TableSpec table_of(int servers, const ConsistencyOptions& consistency = {}) {
  return {.name = "weights",
          .rule = tensor::SGDRule{},
          .consistency = consistency,
          .parts = cut_evenly(kElements, sizeof(float), servers)};
}

at::Tensor filled_with(double value) { return at::full({kElements}, value, at::kFloat); }

double first_of(const at::Tensor& values) {
  EXPECT_TRUE(values.equal(at::full_like(values, values[0].item())));  // whole pushes only
  return values[0].item<double>();
}

TEST(FailuresTest, OthersGoOnWithoutALostWorker) {
  const ConsistencyOptions together = {.kind = Consistency::kSynchronous, .workers = 3};
  PsCluster cluster(2, 3);
  std::latch stepped(3);
  const auto step = [](FlatTable& table, const at::Tensor& values) {
    table.push_pull(filled_with(1), values, {.learning_rate = 1});
  };
  std::vector<Thread> threads;
  for (int worker = 0; worker < 3; ++worker) {
    threads.emplace_back("worker", [&, worker] {
      auto client = cluster.client(worker);
      const at::Tensor values = filled_with(0);
      auto table = client->create_flat(table_of(2, together), values, worker == 0);
      step(*table, values);
      EXPECT_EQ(first_of(values), -3);
      stepped.arrive_and_wait();
      if (worker == 2) return;  // without a word
      step(*table, values);
      EXPECT_EQ(first_of(values), -5);
      client->leave(worker == 0);
    });
  }
}

TEST(FailuresTest, ASilentWorkerHoldsTheOthersUpForTheLivenessIntervalOnly) {
  const ConsistencyOptions bounded = {.kind = Consistency::kBounded, .staleness = 0};
  PsCluster cluster(1, 2, {.liveness = 400ms});
  auto silent = cluster.client(1);
  auto other = cluster.client(0);
  const at::Tensor values = filled_with(0);
  auto table = other->create_flat(table_of(1, bounded), values, true);
  silent->create_flat(table_of(1, bounded), values, false);
  cluster.network().silence("worker-1", "ps-0");
  table->push(filled_with(1), {});
  const auto start = std::chrono::steady_clock::now();
  table->pull(values);  // a step ahead of the silent one
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  EXPECT_EQ(table->counters()[0].workers, 1);
  other->leave(true);
}

TEST(FailuresTest, AWorkerThatComesBackTakesPartAgain) {
  PsCluster cluster(2, 1);
  const at::Tensor values = filled_with(0);
  for (int life = 0; life < 3; ++life) {
    auto client = cluster.client(0);
    auto table = client->create_flat(table_of(2), filled_with(7), true);
    table->pull(values);
    EXPECT_EQ(first_of(values), life == 0 ? 7 : 7 - life);  // the first values were the first's
    table->push(filled_with(1), {.learning_rate = 1});
    EXPECT_EQ(table->version(), life + 1);
  }
}

TEST(FailuresTest, AWorkerThatComesLateStartsWhereTheOthersAre) {
  const ConsistencyOptions bounded = {.kind = Consistency::kBounded, .staleness = 1};
  PsCluster cluster(1, 2);
  auto early = cluster.client(0);
  const at::Tensor values = filled_with(0);
  auto table = early->create_flat(table_of(1, bounded), values, true);
  for (int step = 0; step < 5; ++step) table->push(filled_with(1), {.learning_rate = 1});
  auto late = cluster.client(1);
  const at::Tensor remote = filled_with(0);
  auto same = late->create_flat(table_of(1, bounded), remote, false);
  EXPECT_EQ(first_of(remote), -5);
  for (int step = 0; step < 2; ++step) same->push(filled_with(1), {.learning_rate = 1});
  table->pull(values);  // nobody waits
  EXPECT_EQ(first_of(values), -7);
}

TEST(FailuresTest, ALostServerIsNamed) {
  PsCluster cluster(2, 1);
  auto client = cluster.client(0);
  const at::Tensor values = filled_with(0);
  auto table = client->create_flat(table_of(2), values, true);
  cluster.end_server(1);
  for (int again = 0; again < 2; ++again) {
    expect_error_containing([&] { table->push(filled_with(1), {}); }, ErrorCode::kUnavailable,
                            "[ps] push to table 'weights': /job:ps/task:1: ");
  }
}

TEST(FailuresTest, ASilentServerIsLostAfterTheLivenessInterval) {
  PsCluster cluster(2, 1, {.liveness = 400ms});
  auto client = cluster.client(0);
  const at::Tensor values = filled_with(0);
  auto table = client->create_flat(table_of(2), values, true);
  cluster.network().silence("worker-0", "ps-1");
  const auto start = std::chrono::steady_clock::now();
  expect_error_containing([&] { table->pull(values); }, ErrorCode::kUnavailable,
                          "[ps] pull of table 'weights': /job:ps/task:1: ");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(FailuresTest, AServerThatWasStartedAnewGetsItsValuesFromTheFirstWorker) {
  PsCluster cluster(1, 1);
  const at::Tensor values = filled_with(0);
  {
    auto client = cluster.client(0);
    client->create_flat(table_of(1), values, true);
  }
  cluster.end_server(0);
  cluster.start_server(0);
  auto client = cluster.client(0);
  // The first worker brings its values again: the job goes on from what it has restored.
  auto table = client->create_flat(table_of(1), filled_with(3), true);
  table->pull(values);
  EXPECT_EQ(first_of(values), 3);
}

TEST(FailuresTest, APushThatIsCutOffIsAppliedAsAWholeOrNotAtAll) {
  for (uint64_t bytes = 1; bytes < 6000; bytes += 613) {
    PsCluster cluster(1, 2);
    auto watcher = cluster.client(1);
    auto worker = cluster.client(0);
    const at::Tensor values = filled_with(0);
    auto table = worker->create_flat(table_of(1), values, true);
    auto seen = watcher->create_flat(table_of(1), filled_with(0), false);
    cluster.network().cut_after("worker-0", "ps-0", bytes);
    bool acknowledged = true;
    try {
      table->push(filled_with(1), {.learning_rate = 1});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
      acknowledged = false;
    }
    // The server has seen the end of the connection when this worker alone is there.
    while (!acknowledged && seen->counters()[0].workers > 1) {
    }
    const at::Tensor now = filled_with(5);
    seen->pull(now);
    const double value = first_of(now);
    if (acknowledged) {
      EXPECT_EQ(value, -1);
    } else {
      EXPECT_TRUE(value == 0 || value == -1) << value;
    }
  }
}

TEST(FailuresTest, AServerThatNobodyComesToEnds) {
  const cluster::ClusterSpec spec = {{"ps", {"ps-0:1"}}, {"worker", {"worker-0:1"}}};
  wire::MemoryNetwork network;
  ParameterServer server(
      spec, {"ps", 0},
      {.server = {.transport = network.transport("ps-0")}, .limits = {.idle_timeout = 50ms}});
  expect_error_containing([&] { server.join(); }, ErrorCode::kDeadlineExceeded,
                          "[ps] /job:ps/task:0: no worker was connected for 0.05 s");
}

TEST(FailuresTest, AJobThatIsDoneWaitsForAWorkerThatIsStarting) {
  const cluster::ClusterSpec spec = {{"ps", {"ps-0:1"}}, {"worker", {"worker-0:1", "worker-1:1"}}};
  for (const bool comes : {false, true}) {
    wire::MemoryNetwork network;
    cluster::ServerOptions options{.liveness = 500ms, .transport = network.transport("ps-0")};
    if (comes) options.liveness = 60s;
    ParameterServer server(spec, {"ps", 0}, {.server = options});
    const auto come_and_go = [&](int worker) {
      options.transport = network.transport(str_cat("worker-", worker));
      Client client(spec, {"worker", worker}, {.server = options});
      client.leave(/*job_done=*/worker == 0);
    };
    come_and_go(0);
    const auto done = std::chrono::steady_clock::now();
    if (comes) come_and_go(1);
    server.join();
    const auto waited = std::chrono::steady_clock::now() - done;
    if (comes) {
      EXPECT_LT(waited, 30s);
    } else {
      EXPECT_GE(waited, 400ms);
    }
  }
}

TEST(FailuresTest, WorkersWithoutServersAreTold) {
  const cluster::ClusterSpec spec = {{"ps", {"ps-0:1"}}, {"worker", {"worker-0:1"}}};
  wire::MemoryNetwork network;
  expect_error_containing(
      [&] {
        Client client(spec, {"worker", 0},
                      {.server = {.start_timeout = 100ms, .transport = network.transport("w")}});
      },
      ErrorCode::kDeadlineExceeded, "ps-0:1");
  const cluster::ClusterSpec none = {{"worker", {"worker-0:1"}}};
  expect_error_containing(
      [&] {
        Client client(none, {"worker", 0}, {});
      },
      ErrorCode::kInvalidArgument, "expected a cluster with tasks of the job \"ps\"");
  expect_error_containing(
      [&] {
        Client client(spec, {"ps", 0}, {});
      },
      ErrorCode::kInvalidArgument, "parameter servers run a ParameterServer");
}

}  // namespace
}  // namespace strata::ps
