// Tables with a backup: whoever is lost, no push that was acknowledged is, and none counts twice.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>

#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "strata/core/log.h"
#include "strata/core/str_cat.h"
#include "strata/ps/row_table.h"
#include "strata/tensor/fingerprint.h"
#include "support/expect_error.h"
#include "tensor/update_rule.h"

namespace strata::ps {
namespace {

using test::PsCluster;
using namespace std::chrono_literals;

constexpr int64_t kElements = 1000;
constexpr int64_t kRows = 50;
constexpr int64_t kWidth = 4;

TableSpec table_of(int servers, const ConsistencyOptions& consistency = {}) {
  return {.name = "weights",
          .dtype = at::kDouble,
          .rule = tensor::SGDRule{},
          .consistency = consistency,
          .backup = true,
          .parts = cut_evenly(kElements, sizeof(double), servers)};
}

at::Tensor all_of(double value) { return at::full({kElements}, value, at::kDouble); }

double only_value_of(const at::Tensor& values) {
  EXPECT_TRUE(values.equal(at::full_like(values, values[0].item())));
  return values[0].item<double>();
}

/// Values that depend on `phase` and their place alone.
at::Tensor waves(at::IntArrayRef shape, double phase, c10::ScalarType dtype) {
  at::Tensor values = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) {
    values.mutable_data_ptr<double>()[i] = std::sin(1.7 * static_cast<double>(i) + phase);
  }
  return values.to(dtype);
}

// The copies have the same bits.

struct Case {
  Consistency consistency;
  bool rows;
  tensor::RuleOptions rule;
  PushPrecision precision;
  c10::ScalarType dtype;
  bool shared = false;  // in memory that servers of this host map
};

constexpr int kSteps = 6;
constexpr int kServers = 3;

struct Trainer {
  Trainer(PsCluster& cluster, const Case& which, int worker) : each(which), index(worker) {
    client = cluster.client(worker);
    TableSpec spec{.name = "weights",
                   .dtype = which.dtype,
                   .rule = which.rule,
                   .consistency = {.kind = which.consistency, .staleness = 1, .workers = 2},
                   .backup = true};
    for (at::Tensor* tensor : {&values, &gradients}) {
      *tensor = which.shared ? client->make_buffer(kElements, which.dtype)
                             : at::empty({kElements}, which.dtype);
    }
    values.copy_(waves({kElements}, 0.1, which.dtype));
    if (which.rows) {
      spec.rows = kRows;
      spec.width = kWidth;
      spec.initializer = {.kind = RowInitializer::Kind::kNormal, .b = 1, .seed = 3};
      rows = client->create_rows(spec);
    } else {
      spec.parts = cut_evenly(kElements, 8, kServers);
      flat = client->create_flat(spec, values, worker == 0);
    }
  }

  void step(int number) {
    const PushOptions options = {
        .learning_rate = 0.1, .weight_decay = 0.01, .precision = each.precision};
    const double phase = number * 2 + index;
    if (flat) {
      gradients.copy_(waves({kElements}, phase, each.dtype));
      flat->push_pull(gradients, values, options);
      return;
    }
    const PulledRows pulled = rows->pull(at::arange(number + index, kRows, 3, at::kLong));
    rows->push(pulled, waves(pulled.values.sizes(), phase, each.dtype), options);
  }

  std::string state() {
    std::vector<at::Tensor> all;
    if (flat) {
      flat->read(values);
      all.push_back(values);
    } else {
      all.push_back(rows->read());
    }
    for (int slot = 0; slot < tensor::make_rule(each.rule)->num_slots(); ++slot) {
      all.push_back(flat ? flat->read_slot(slot) : rows->read_slot(slot));
    }
    return tensor::fingerprint(all);
  }

  Case each;
  int index;
  std::unique_ptr<Client> client;
  at::Tensor values;
  at::Tensor gradients;
  std::shared_ptr<FlatTable> flat;
  std::shared_ptr<RowTable> rows;
};

/// @param lost  The server that is lost after the third step; -1: none.
std::string state_behind_training(const Case& each, int lost) {
  PsCluster cluster(kServers, 2, {.liveness = 4s});
  Trainer first(cluster, each, 0);
  Trainer second(cluster, each, 1);
  for (int step = 0; step < kSteps; ++step) {
    if (step == 3 && lost >= 0) cluster.end_server(lost);
    if (each.consistency == Consistency::kSynchronous) {
      Thread other("other", [&] { second.step(step); });
      first.step(step);
      other.join();
    } else {
      first.step(step);
      second.step(step);
    }
  }
  return first.state();
}

TEST(BackupTest, TheCopiesHaveTheSameBits) {
  const tensor::RuleOptions sgd = tensor::SGDRule{.momentum = 0.9};
  const tensor::RuleOptions adam = tensor::AdamRule{};
  const Case cases[] = {
      {Consistency::kAsynchronous, false, adam, PushPrecision::kFull, at::kFloat},
      {Consistency::kAsynchronous, false, sgd, PushPrecision::kFloat16, at::kFloat},
      {Consistency::kAsynchronous, true, adam, PushPrecision::kFull, at::kDouble},
      {Consistency::kAsynchronous, true, sgd, PushPrecision::kFloat16, at::kFloat},
      {Consistency::kAsynchronous, false, adam, PushPrecision::kFull, at::kFloat, true},
      {Consistency::kBounded, false, adam, PushPrecision::kFloat16, at::kFloat},
      {Consistency::kBounded, false, sgd, PushPrecision::kFull, at::kDouble},
      {Consistency::kBounded, true, adam, PushPrecision::kFull, at::kFloat},
      {Consistency::kSynchronous, false, adam, PushPrecision::kFull, at::kDouble},
      {Consistency::kSynchronous, false, adam, PushPrecision::kFull, at::kDouble, true},
      {Consistency::kSynchronous, false, sgd, PushPrecision::kFloat16, at::kFloat},
      {Consistency::kSynchronous, true, adam, PushPrecision::kFull, at::kFloat},
  };
  for (const Case& each : cases) {
    const std::string undisturbed = state_behind_training(each, -1);
    const int lost = each.rows ? 2 : 0;
    EXPECT_EQ(state_behind_training(each, lost), undisturbed)
        << static_cast<int>(each.consistency) << (each.rows ? " rows, " : " flat, ")
        << static_cast<int>(each.precision);
  }
}

// At any moment of a call something breaks.

struct Link {
  const char* from;
  const char* to;
};

/// Worker 0 makes the table and pushes five times, worker 1 reads; `link` is cut after so many
/// bytes.
void push_over_a_link_that_breaks(const Link& link, uint64_t bytes, bool brings_values,
                                  bool shared) {
  SCOPED_TRACE(str_cat(link.from, " to ", link.to, " after ", bytes, " bytes"));
  PsCluster cluster(2, 2, {.liveness = 2s});
  auto client = cluster.client(0);
  auto reader = cluster.client(1);
  cluster.network().cut_after(link.from, link.to, bytes);
  const auto make = [&](double value) {
    at::Tensor made = shared ? client->make_buffer(kElements, at::kDouble) : all_of(0);
    return made.fill_(value);
  };
  const at::Tensor values = make(100);
  auto table = client->create_flat(table_of(2), values, true);
  for (int push = 0; push < 5; ++push) {
    PushResult result;
    if (brings_values) {
      result = table->push_pull(make(push), values, {.learning_rate = 1});
      EXPECT_EQ(only_value_of(values), 100 - push * (push + 1) / 2);
    } else {
      result = table->push(make(push), {.learning_rate = 1});
    }
    EXPECT_TRUE(result.applied);
    EXPECT_EQ(result.version, push + 1);
  }
  const at::Tensor seen = all_of(0);
  auto same = reader->create_flat(table_of(2), seen, false);
  EXPECT_EQ(only_value_of(seen), 90);
  for (const TableCounters& each : same->counters()) {
    EXPECT_EQ(each.pushes, 5);
    EXPECT_EQ(each.version, 5);
  }
}

TEST(BackupTest, APushCountsOnceWhereverALinkBreaks) {
  for (const Link link : {Link{"worker-0", "ps-0"}, Link{"ps-0", "worker-0"}, Link{"ps-0", "ps-1"},
                          Link{"ps-1", "ps-0"}, Link{"worker-0", "ps-1"}}) {
    for (uint64_t bytes = 1; bytes < 26'000; bytes += 1999) {
      push_over_a_link_that_breaks(link, bytes, bytes % 4 < 2, /*shared=*/false);
    }
    for (uint64_t bytes = 1; bytes < 4'000; bytes += 399) {
      push_over_a_link_that_breaks(link, bytes, bytes % 4 < 2, /*shared=*/true);
    }
  }
}

TEST(BackupTest, ASynchronousStepCountsEachWorkerOnceWhereverALinkBreaks) {
  for (const char* from : {"worker-0", "ps-0"}) {
    for (uint64_t bytes = 1; bytes < 26'000; bytes += 1999) {
      SCOPED_TRACE(str_cat(from, " after ", bytes, " bytes"));
      PsCluster cluster(2, 3, {.liveness = 2s});
      auto first = cluster.client(0);
      auto second = cluster.client(1);
      const ConsistencyOptions together = {.kind = Consistency::kSynchronous, .workers = 2};
      cluster.network().cut_after(from, *from == 'w' ? "ps-0" : "worker-0", bytes);
      const at::Tensor values = all_of(0);
      const at::Tensor remote = all_of(0);
      auto table = first->create_flat(table_of(2, together), values, true);
      auto same = second->create_flat(table_of(2, together), remote, false);
      // Who is cut off from a server is lost for it, until it comes by the backup: a step may be
      // made without it there, and its push be dropped.
      std::vector<double> counted(2, 0);
      const auto steps = [&](Client& client, FlatTable& own, const at::Tensor& into, int worker) {
        for (int step = 0; step < 5; ++step) {
          if (own.push_pull(all_of(1 + worker), into, {.learning_rate = 1}).applied) {
            counted[static_cast<size_t>(worker)] += 1 + worker;
          }
        }
        client.leave(false);  // the other is waited for no longer
      };
      Thread other("other", [&] { steps(*second, *same, remote, 1); });
      steps(*first, *table, values, 0);
      other.join();
      auto reader = cluster.client(2);
      reader->create_flat(table_of(2, together), values, false);
      // Server 1 has all, whatever became of server 0's line.
      EXPECT_EQ(values[kElements - 1].item<double>(), -15);
      const double here = -values[0].item<double>();
      EXPECT_EQ(here, counted[0] + counted[1]);
    }
  }
}

// The server has taken the push and thrown it away with its worker, and so has its backup: there
// it comes again.
TEST(BackupTest, APushThatWaitedForOthersWhenItsWorkerWasCutOffCounts) {
  PsCluster cluster(2, 2, {.liveness = 2s});
  auto first = cluster.client(0);
  auto second = cluster.client(1);
  const ConsistencyOptions together = {.kind = Consistency::kSynchronous, .workers = 2};
  const at::Tensor values = all_of(0);
  const at::Tensor remote = all_of(0);
  auto table = first->create_flat(table_of(2, together), values, true);
  auto same = second->create_flat(table_of(2, together), remote, false);
  std::atomic<bool> replaced = false;
  std::atomic<bool> lost = false;
  LogSink before = set_log_sink([&](const LogRecord& record) {
    if (record.message.find("takes the place of") != std::string::npos) replaced = true;
    if (record.message.find("/job:worker/task:0 is lost") != std::string::npos) lost = true;
  });
  // Behind the push, with a sign of life; what goes to the backup takes longer than the news
  // there.
  cluster.network().cut_after("worker-0", "ps-0", kElements / 2 * sizeof(double) + 300);
  cluster.network().set_link("worker-0", "ps-1", {.latency = 200ms});
  Thread other("other", [&] {
    EXPECT_TRUE(table->push_pull(all_of(1), values, {.learning_rate = 1}).applied);
  });
  const auto wait_until = [](const std::function<bool()>& done) {
    const auto start = std::chrono::steady_clock::now();
    while (!done()) ASSERT_LT(std::chrono::steady_clock::now() - start, 60s);
  };
  wait_until([&] { return replaced.load(); });
  // Until then server 0 may count two as well, and the step be made without the first.
  wait_until([&] { return lost.load(); });
  wait_until([&] { return same->counters()[0].workers == 2; });  // the push is there
  set_log_sink(std::move(before));
  EXPECT_TRUE(same->push_pull(all_of(2), remote, {.learning_rate = 1}).applied);
  other.join();
  EXPECT_EQ(only_value_of(values), -3);
  EXPECT_EQ(only_value_of(remote), -3);
}

// Who is lost beside the server, or comes later.

TEST(BackupTest, AServerThatFallsSilentIsReplacedAfterTheLivenessInterval) {
  PsCluster cluster(2, 2, {.liveness = 1s});
  auto client = cluster.client(0);
  const at::Tensor values = all_of(0);
  auto table = client->create_flat(table_of(2), values, true);
  for (const char* host : {"worker-0", "ps-1"}) cluster.network().silence("ps-0", host);
  table->push_pull(all_of(1), values, {.learning_rate = 1});
  EXPECT_EQ(only_value_of(values), -1);
  // It is back: it hears that it has been replaced, and so does who comes to it.
  for (const char* host : {"worker-0", "ps-1"}) cluster.network().heal("ps-0", host);
  auto late = cluster.client(1);
  const at::Tensor remote = all_of(5);
  auto same = late->create_flat(table_of(2), remote, false);
  EXPECT_EQ(only_value_of(remote), -1);
  same->push(all_of(1), {.learning_rate = 1});
  table->pull(values);
  EXPECT_EQ(only_value_of(values), -2);
}

TEST(BackupTest, AWorkerThatComesAfterTheLossFindsTheBackup) {
  for (const bool anew : {false, true}) {
    PsCluster cluster(3, 2);
    auto client = cluster.client(0);
    const at::Tensor values = all_of(0);
    auto table = client->create_flat(table_of(3), values, true);
    cluster.end_server(0);
    table->push(all_of(1), {.learning_rate = 1});
    if (anew) cluster.start_server(0);
    auto late = cluster.client(1);
    const at::Tensor remote = all_of(5);
    auto same = late->create_flat(table_of(3), remote, false);
    EXPECT_EQ(only_value_of(remote), -1) << anew;
    same->push(all_of(1), {.learning_rate = 1});
    table->pull(values);
    EXPECT_EQ(only_value_of(values), -2);
    client->leave(true);
    late->leave(false);
    for (const int server : {1, 2}) cluster.server(server).join();
  }
}

TEST(BackupTest, NobodyWaitsForAWorkerThatWasLostWithTheServer) {
  PsCluster cluster(2, 2);
  auto lost = cluster.client(1);
  auto client = cluster.client(0);
  const ConsistencyOptions together = {.kind = Consistency::kSynchronous, .workers = 2};
  const at::Tensor values = all_of(0);
  auto table = client->create_flat(table_of(2, together), values, true);
  lost->create_flat(table_of(2, together), all_of(0), false);
  cluster.network().cut("worker-1", "ps-1");  // before the server can tell its backup
  cluster.end_server(0);
  lost.reset();
  table->push_pull(all_of(1), values, {.learning_rate = 1});
  EXPECT_EQ(only_value_of(values), -1);
  for (const TableCounters& each : table->counters()) EXPECT_EQ(each.workers, 1);
}

TEST(BackupTest, OfThreeServersEachMayLoseItsNeighbour) {
  PsCluster cluster(3, 1);
  auto client = cluster.client(0);
  const at::Tensor values = all_of(0);
  auto table = client->create_flat(table_of(3), values, true);
  cluster.end_server(1);
  for (int push = 0; push < 3; ++push) {
    table->push_pull(all_of(1), values, {.learning_rate = 1});
    EXPECT_EQ(only_value_of(values), -1 - push);
  }
  // Server 0 has lost its backup, and says so; server 2's part has one.
  cluster.end_server(0);
  expect_error_containing([&] { table->pull(values); }, ErrorCode::kUnavailable,
                          "(its backup had been lost before)");
}

TEST(BackupTest, ABackupThatIsLostWithItsServerIsNamed) {
  PsCluster cluster(3, 1);
  auto client = cluster.client(0);
  const at::Tensor values = all_of(0);
  auto table = client->create_flat(table_of(3), values, true);
  cluster.end_server(1);
  cluster.end_server(2);
  expect_error_containing([&] { table->pull(values); }, ErrorCode::kUnavailable,
                          "[ps] pull of table 'weights': /job:ps/task:2 in the place of "
                          "/job:ps/task:1: ");
}

TEST(BackupTest, TwoServersThatBothServeATableAreFoundOut) {
  PsCluster cluster(2, 2, {.liveness = 1s});
  auto client = cluster.client(0);
  auto other = cluster.client(1);
  const at::Tensor values = all_of(0);
  auto table = client->create_flat(table_of(2), values, true);
  const at::Tensor remote = all_of(0);
  auto same = other->create_flat(table_of(2), remote, false);
  cluster.network().cut("ps-0", "ps-1");
  cluster.network().cut("ps-0", "worker-0");
  table->push(all_of(1), {.learning_rate = 1});  // server 0's part by server 1
  expect_error_containing([&] { same->push(all_of(1), {.learning_rate = 1}); },
                          ErrorCode::kDataLoss,
                          "[ps] /job:ps/task:0 and its backup have lost each other");
}

TEST(BackupTest, TablesWithoutOneAreLostWithTheirServer) {
  PsCluster cluster(2, 1);
  auto client = cluster.client(0);
  TableSpec spec = table_of(2);
  const at::Tensor values = all_of(0);
  auto table = client->create_flat(spec, values, true);
  spec.name = "other";
  spec.backup = false;
  auto without = client->create_flat(spec, values, true);
  cluster.end_server(1);
  table->push(all_of(1), {});
  expect_error_containing([&] { without->push(all_of(1), {}); }, ErrorCode::kUnavailable,
                          "[ps] push to table 'other': /job:ps/task:1: ");
  table->push(all_of(1), {});
}

TEST(BackupTest, ANonFinitePushIsRefusedByNameBehindALostServer) {
  PsCluster cluster(2, 1);
  auto client = cluster.client(0);
  const at::Tensor values = all_of(0);
  auto table = client->create_flat(table_of(2), values, true);
  const at::Tensor bad = all_of(1);
  bad.mutable_data_ptr<double>()[3] = std::nan("");
  for (const bool lost : {false, true}) {
    if (lost) cluster.end_server(0);
    expect_error_containing([&] { table->push(bad, {}); }, ErrorCode::kInvalidArgument,
                            "got a gradient that is not finite from /job:worker/task:0, element 3");
  }
  table->pull(values);
  EXPECT_EQ(values[0].item<double>(), 0);
}

}  // namespace
}  // namespace strata::ps
