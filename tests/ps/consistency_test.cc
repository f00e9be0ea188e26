// How workers wait for each other: not at all, within a bound, or in every step.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <random>
#include <set>

#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "ps/tables/worker_clocks.h"
#include "strata/ps/row_table.h"
#include "support/expect_error.h"

namespace strata::ps {
namespace {

using test::PsCluster;

TableSpec table_with(const ConsistencyOptions& consistency, int servers, int64_t elements = 100) {
  return {.name = "weights",
          .dtype = at::kDouble,
          .rule = tensor::SGDRule{},
          .consistency = consistency,
          .parts = cut_evenly(elements, sizeof(double), servers)};
}

at::Tensor all_of(double value, int64_t elements = 100) {
  return at::full({elements}, value, at::kDouble);
}

TEST(WorkerClocksTest, WhoComesIsWhereTheSlowestIs) {
  WorkerClocks clocks;
  clocks.join("a");
  EXPECT_EQ(clocks.tick("a"), 1);
  EXPECT_EQ(clocks.tick("a"), 2);
  clocks.join("b");
  EXPECT_EQ(clocks.lead("b"), 0);
  EXPECT_EQ(clocks.tick("b"), 3);
  EXPECT_EQ(clocks.lead("b"), 1);
  clocks.leave("a");
  EXPECT_EQ(clocks.lead("b"), 0);
  clocks.join("a");
  EXPECT_EQ(clocks.tick("a"), 4);
}

TEST(BoundedStalenessTest, NobodyIsFurtherAheadThanTheBound) {
  for (const int64_t bound : {0, 1, 4}) {
    const ConsistencyOptions consistency = {.kind = Consistency::kBounded, .staleness = bound};
    PsCluster cluster(2, 3);
    std::latch made(3);
    std::array<std::atomic<int64_t>, 3> steps{};
    std::atomic<int64_t> most{0};
    std::mutex mutex;
    std::vector<TableCounters> counters;
    PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
      at::Tensor values = all_of(0);
      const auto table = client.create_flat(table_with(consistency, 2), values, worker == 0);
      made.arrive_and_wait();
      std::mt19937 random(static_cast<unsigned>(worker));
      const int64_t local = 30;
      for (int64_t step = 0; step < local; ++step) {
        table->pull(values);
        int64_t slowest = local;
        for (const auto& each : steps) slowest = std::min<int64_t>(slowest, each);
        int64_t seen = most;
        while (step - slowest > seen && !most.compare_exchange_weak(seen, step - slowest)) {
        }
        steps[static_cast<size_t>(worker)] = step + 1;  // before the others can hear of it
        table->push(all_of(1), {.learning_rate = 1});
      }
      const std::lock_guard lock(mutex);
      for (const TableCounters& each : table->counters()) counters.push_back(each);
    }));
    EXPECT_LE(most, bound);
    ASSERT_EQ(counters.size(), 6);
    for (const TableCounters& each : counters) EXPECT_LE(each.most_lead, bound);
  }
}

TEST(BoundedStalenessTest, AFastWorkerWaitsForTheSlowOneAndNoLongerOnceItIsGone) {
  const ConsistencyOptions consistency = {.kind = Consistency::kBounded, .staleness = 2};
  PsCluster cluster(1, 2);
  std::latch made(2);
  std::latch blocked(1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
    at::Tensor values = all_of(0);
    const auto table = client.create_flat(table_with(consistency, 1), values, worker == 0);
    made.arrive_and_wait();
    if (worker == 1) {
      blocked.wait();  // then leaves without a step
      return;
    }
    for (int step = 0; step < 3; ++step) {
      table->pull(values);
      table->push(all_of(1), {.learning_rate = 1});
    }
    blocked.count_down();
    table->pull(values);  // three ahead of worker 1
    EXPECT_EQ(table->counters()[0].workers, 1);
  }));
}

TEST(SynchronousTest, AStepIsTheSumOfAllPushesDividedByTheirWeights) {
  for (const int servers : {1, 2}) {
    const ConsistencyOptions consistency = {.kind = Consistency::kSynchronous, .workers = 3};
    PsCluster cluster(servers, 3);
    PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
      at::Tensor values = all_of(0);
      const auto table = client.create_flat(table_with(consistency, servers), values, worker == 0);
      double expected = 0;
      for (int step = 1; step <= 10; ++step) {
        // Gradients 1, 2, 3 times the step, of 1, 2, 3 examples.
        const PushResult result = table->push_pull(all_of((worker + 1.0) * step), values,
                                                   {.learning_rate = 0.5, .weight = worker + 1.0});
        EXPECT_TRUE(result.applied);
        EXPECT_EQ(result.version, step);
        expected -= 0.5 * (6.0 * step) / 6.0;
        EXPECT_TRUE(values.equal(all_of(expected)));
      }
    }));
  }
}

TEST(SynchronousTest, TheSumDoesNotDependOnWhoComesFirst) {
  std::set<std::string> results;
  for (int round = 0; round < 8; ++round) {
    const ConsistencyOptions consistency = {.kind = Consistency::kSynchronous, .workers = 3};
    PsCluster cluster(2, 3,
                      {.network = {.seed = static_cast<uint64_t>(round) + 1,
                                   .link = {.jitter = std::chrono::microseconds(300)}}});
    std::mutex mutex;
    PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
      at::Tensor values = all_of(0);
      const auto table = client.create_flat(table_with(consistency, 2), values, worker == 0);
      for (int step = 0; step < 5; ++step) {
        table->push_pull(all_of(std::pow(0.1, worker) * (step + 0.7)), values,
                         {.learning_rate = 0.3});
      }
      const std::lock_guard lock(mutex);
      results.insert(std::string(static_cast<const char*>(values.data_ptr()), values.nbytes()));
    }));
  }
  EXPECT_EQ(results.size(), 1);
}

TEST(SynchronousTest, BackupWorkersAreDroppedAndCounted) {
  const ConsistencyOptions consistency = {
      .kind = Consistency::kSynchronous, .workers = 3, .backups = 1};
  PsCluster cluster(1, 3);
  std::latch made(3);
  std::latch stepped(2);
  PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
    at::Tensor values = all_of(0);
    const auto table = client.create_flat(table_with(consistency, 1), values, worker == 0);
    made.arrive_and_wait();
    if (worker < 2) {
      EXPECT_TRUE(table->push_pull(all_of(1), values, {.learning_rate = 1}).applied);
      EXPECT_TRUE(values.equal(all_of(-2)));
      stepped.count_down();
      return;
    }
    stepped.wait();
    const PushResult late = table->push_pull(all_of(100), values, {.learning_rate = 1});
    EXPECT_FALSE(late.applied);
    EXPECT_EQ(late.version, 1);
    EXPECT_TRUE(values.equal(all_of(-2)));  // it goes on from here
    EXPECT_EQ(table->counters()[0].dropped, 1);
    EXPECT_EQ(table->counters()[0].pushes, 2);
  }));
}

TEST(SynchronousTest, RowsOfAllWorkersAreAdded) {
  const ConsistencyOptions consistency = {.kind = Consistency::kSynchronous, .workers = 2};
  PsCluster cluster(2, 2);
  PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
    const auto table = client.create_rows({.name = "rows",
                                           .dtype = at::kDouble,
                                           .rule = tensor::SGDRule{},
                                           .consistency = consistency,
                                           .rows = 10,
                                           .width = 2});
    // Worker 0 has rows 0 to 5, worker 1 rows 4 to 9.
    const PulledRows rows = table->pull(at::arange(6) + worker * 4);
    table->push(rows, at::full({6, 2}, worker + 1.0, at::kDouble), {.learning_rate = 1});
    const at::Tensor all = table->read();
    for (int64_t row = 0; row < 10; ++row) {
      const double expected = row < 4 ? -1 : row < 6 ? -3 : -2;
      EXPECT_EQ(all[row][0].item<double>(), expected) << row;
    }
  }));
}

}  // namespace
}  // namespace strata::ps
