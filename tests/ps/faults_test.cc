// Something happens to a job with parameter servers, at a moment that the seed chooses: a worker is
// lost, slow, back again or late, pushes what is none; servers are lost, with and without backup;
// links are cut or fall silent. Nobody hangs; each outcome is the documented one
// (docs/parameter_servers.md); every push that was acknowledged is in the values, and none twice; a
// job that ends is started again from its checkpoint.
//
// Tasks are threads on a network in memory; tests/parameter_servers/faults_test.cc has processes.
// STRATA_SOAK_PS_FAULTS=500 takes as many seeds, nine of ten here; STRATA_SOAK_SEED=n others, and
// STRATA_TEST_ONLY=i only the i-th of them.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "ps/tables/server_calls.h"
#include "strata/core/str_cat.h"
#include "strata/ps/row_table.h"
#include "support/expect_error.h"
#include "support/killed_program.h"

namespace strata::ps {
namespace {

using test::PsCluster;
using namespace std::chrono_literals;

constexpr int kSteps = 8;
constexpr int64_t kElements = 60;
constexpr int64_t kRows = 12;
constexpr int64_t kWidth = 3;

enum class Fault {
  kWorkerLost,
  kWorkerCut,  // lost in the middle of a push: all of its links
  kWorkerBack,
  kWorkerSlow,
  kWorkerLate,
  kWorkerSilent,
  kServerLost,
  kServerAndWorkerLost,
  kServerLostWorkerLate,
  kServerSilent,
  kTwoServersLost,
  kWorkersLink,
  kServersLink,
  kNotFinite,
  kWrongShape,
};
constexpr const char* kNames[] = {
    "worker lost",       "worker cut off", "worker back",      "worker slow",
    "worker late",       "worker silent",  "server lost",      "server and worker lost",
    "server lost, late", "server silent",  "two servers lost", "worker's link cut",
    "servers' link cut", "not finite",     "wrong shape"};

struct Plan {
  uint64_t seed = 0;
  Fault fault = Fault::kWorkerLost;
  ConsistencyOptions consistency;
  int servers = 1;
  bool backup = false;
  bool rows = false;
  tensor::RuleOptions rule = tensor::SGDRule{};
  PushPrecision precision = PushPrecision::kFull;
  bool brings_values = false;
  bool shared = false;  // gradients and values lie in memory that servers of this host can map
  int worker = 0;       // the victim
  int server = 0;
  int step = 0;         // of the victim: in front of this push
  bool during = false;  // or in it
  bool to_server = true;
  uint64_t bytes = 0;
  bool heals = false;
  wire::MemoryNetworkOptions network;

  int workers() const { return consistency.workers; }
  bool counts() const { return std::holds_alternative<tensor::SGDRule>(rule); }
  /// Whether a server is lost, with all that it has.
  bool ends_the_job() const {
    const bool one = fault == Fault::kServerLost || fault == Fault::kServerAndWorkerLost ||
                     fault == Fault::kServerLostWorkerLate || fault == Fault::kServerSilent;
    return fault == Fault::kTwoServersLost || (one && !backup);
  }
  bool in_silence() const { return fault == Fault::kServerSilent || fault == Fault::kWorkerSilent; }
  std::string describe() const {
    return str_cat("seed ", seed, ": ", kNames[static_cast<int>(fault)], during ? " (during)" : "",
                   ", worker ", worker, ", server ", server, ", step ", step, ", ", bytes,
                   " bytes, consistency ", static_cast<int>(consistency.kind), "/",
                   consistency.staleness, "/", consistency.backups, ", ", workers(), " workers, ",
                   servers, " servers", backup ? ", backup" : "", rows ? ", rows" : ", flat",
                   shared ? ", shared memory" : "");
  }
};

Plan draw(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % uint64_t(limit)); };
  Plan plan;
  plan.seed = seed;
  plan.fault = static_cast<Fault>(below(15));
  if (plan.in_silence() && below(3) > 0) plan.fault = Fault::kServerLost;  // these take long
  plan.servers = 1 + below(3);
  plan.backup = plan.servers > 1 && below(3) > 0;
  if (plan.fault == Fault::kTwoServersLost) plan.servers = 2 + below(2);
  if (plan.fault == Fault::kServersLink) {
    plan.servers = 2 + below(2);
    plan.backup = true;
  }
  plan.consistency.workers = 1 + below(3);
  plan.consistency.kind = static_cast<Consistency>(below(3));
  if (plan.consistency.kind == Consistency::kBounded) plan.consistency.staleness = below(3);
  if (plan.consistency.kind == Consistency::kSynchronous && plan.workers() > 1) {
    plan.consistency.backups = below(2);
  }
  plan.rows = below(3) == 0;
  if (below(4) == 0) plan.rule = tensor::AdamRule{};
  if (below(4) == 0) plan.precision = PushPrecision::kFloat16;
  plan.brings_values = below(2) == 0;
  plan.worker = below(plan.workers());
  plan.server = below(plan.servers);
  plan.step = below(kSteps);
  plan.during = below(2) == 0;
  plan.to_server = below(2) == 0;
  plan.bytes = 1 + random() % 3000;
  plan.heals = below(2) == 0;
  plan.network.seed = seed;
  plan.network.shuffle = below(2) == 0;
  plan.network.link.fragment = below(3) == 0;
  plan.shared = below(2) == 0;
  return plan;
}

/// What workers have done, for those who wait for it. Threads: any.
class Progress {
 public:
  explicit Progress(int workers) : begun_(static_cast<size_t>(workers)), done_(begun_.size()) {}

  void begin(int worker) {
    change([&] { ++begun_[static_cast<size_t>(worker)]; });
  }
  void complete(int worker) {
    change([&] { ++done_[static_cast<size_t>(worker)]; });
  }
  void end(int worker) {  // what it did not do nobody waits for
    change(
        [&] { begun_[static_cast<size_t>(worker)] = done_[static_cast<size_t>(worker)] = 1000; });
  }
  /// Until the others have begun, or completed, so many steps.
  void wait_for_others(int worker, int begun, int done) {
    std::unique_lock lock(mutex_);
    const bool in_time = changed_.wait_for(lock, 120s, [&] {
      for (size_t i = 0; i < done_.size(); ++i) {
        if (i != static_cast<size_t>(worker) && (begun_[i] < begun || done_[i] < done)) {
          return false;
        }
      }
      return true;
    });
    EXPECT_TRUE(in_time) << "the others do not go on";
  }

 private:
  template <typename Change>
  void change(Change make) {
    const std::lock_guard lock(mutex_);
    make();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> begun_;
  std::vector<int> done_;
};

/// A table of either form, of which a push changes some places by one number.
class AnyTable {
 public:
  AnyTable(Client& client, const Plan& plan, int worker, bool first) : plan_(plan) {
    TableSpec spec{.name = "weights",
                   .dtype = at::kDouble,
                   .rule = plan.rule,
                   .consistency = plan.consistency,
                   .backup = plan.backup};
    if (plan.rows) {
      spec.rows = kRows;
      spec.width = kWidth;
      rows_ = client.create_rows(spec);
    } else {
      spec.parts = cut_evenly(kElements, sizeof(double), plan.servers);
      for (at::Tensor* each : {&values_, &gradients_}) {
        *each = plan.shared ? client.make_buffer(kElements, at::kDouble)
                            : at::zeros({kElements}, at::kDouble);
      }
      flat_ = client.create_flat(spec, values_, first);
    }
    random_.seed(plan.seed * 31 + static_cast<uint64_t>(worker));
  }

  /// The rows of the next push; of a flat table, all.
  std::set<int64_t> choose() {
    std::set<int64_t> places;
    for (int64_t row = 0; row < kRows && plan_.rows; ++row) {
      if (random_() % 2 == 0) places.insert(row);
    }
    return places;
  }

  PushResult push(const std::set<int64_t>& places, double value) {
    const PushOptions options = {.learning_rate = 1, .precision = plan_.precision};
    if (!plan_.rows) {
      gradients_.fill_(value);
      if (plan_.brings_values) return flat_->push_pull(gradients_, values_, options);
      const PushResult result = flat_->push(gradients_, options);
      flat_->pull(values_);
      return result;
    }
    at::Tensor ids = at::zeros({static_cast<int64_t>(places.size())}, at::kLong);
    std::ranges::copy(places, ids.mutable_data_ptr<int64_t>());
    const PulledRows pulled = rows_->pull(ids);
    return rows_->push(pulled, at::full(pulled.values.sizes(), value, at::kDouble), options);
  }

  /// All values, `[places, each]`: a row each, or a server's part (of which all are equal).
  at::Tensor read() {
    if (plan_.rows) return rows_->read();
    flat_->read(values_);
    return values_.clone();
  }
  void write(const at::Tensor& values, int64_t version) {
    if (plan_.rows) {
      rows_->write(values, version);
    } else {
      flat_->write(values, version);
    }
  }
  int64_t version() const { return plan_.rows ? rows_->version() : flat_->version(); }
  std::vector<TableCounters> counters() {
    return plan_.rows ? rows_->counters() : flat_->counters();
  }

 private:
  const Plan& plan_;
  std::shared_ptr<FlatTable> flat_;
  std::shared_ptr<RowTable> rows_;
  at::Tensor values_;
  at::Tensor gradients_;
  std::mt19937_64 random_;
};

/// What a worker knows of its pushes.
struct Push {
  std::set<int64_t> places;
  int value = 0;
  bool acknowledged = false;  // else it may count, on some servers
};

/// A job under one plan.
class Job {
 public:
  explicit Job(const Plan& plan)
      : plan_(plan),
        // One worker more than there are: it looks at the end, or brings nonsense.
        cluster_(plan.servers, plan.workers() + 1,
                 {.liveness = plan.in_silence() ? 3s : 10s, .network = plan.network}),
        progress_(plan.workers()),
        pushes_(static_cast<size_t>(plan.workers())),
        outcomes_(pushes_.size()) {}

  void run() {
    std::vector<Thread> threads;
    for (int worker = 0; worker < plan_.workers(); ++worker) {
      threads.emplace_back("worker", [this, worker] {
        try {
          work(worker);
        } catch (const Error& error) {
          outcomes_[static_cast<size_t>(worker)] = Status(error.code(), error.what());
        }
        progress_.end(worker);
      });
    }
    for (Thread& thread : threads) thread.join();
    saboteur_ = Thread();
    check_outcomes();
    if (plan_.ends_the_job()) {
      start_again();
    } else {
      look();
    }
  }

 private:
  static std::string server_host(int server) { return str_cat("ps-", server); }
  static std::string worker_host(int worker) { return str_cat("worker-", worker); }

  void cut_after(const std::string& other) {
    const std::string server = server_host(plan_.server);
    cluster_.network().cut_after(plan_.to_server ? other : server, plan_.to_server ? server : other,
                                 plan_.bytes);
  }

  /// Now, or while the caller goes on.
  void sabotage(const std::function<void()>& action) {
    if (plan_.during) {
      saboteur_ = Thread("saboteur", action);
    } else {
      action();
    }
  }

  void work(int worker) {
    const bool victim = worker == plan_.worker;
    if (victim && plan_.fault == Fault::kWorkerLate) {
      // Of a synchronous step it is a part from the first on.
      const bool together = plan_.consistency.kind == Consistency::kSynchronous;
      const bool alone = worker == 0 && !plan_.rows;  // it brings the values
      progress_.wait_for_others(worker, together || alone ? 0 : 1,
                                together || alone ? 0 : plan_.step);
    }
    auto client = cluster_.client(worker);
    auto table = std::make_unique<AnyTable>(*client, plan_, worker, worker == 0);
    for (int step = 0; step < kSteps; ++step) {
      progress_.begin(worker);
      // Who comes later counts as being where the slowest is, and would wait for that one sooner.
      if (plan_.fault == Fault::kWorkerSlow) progress_.wait_for_others(worker, 1, 0);
      if (victim && step == plan_.step && !strike(worker, step, client, table)) return;
      push(worker, step, *table);
      progress_.complete(worker);
      if (worker == 0 && step % 3 == 2) {
        saved_ = table->read();
        saved_version_ = table->version();
      }
    }
    client->leave(/*job_done=*/false);
  }

  void push(int worker, int step, AnyTable& table) {
    std::vector<Push>& pushes = pushes_[static_cast<size_t>(worker)];
    pushes.push_back({.places = table.choose(), .value = 1 + worker * 3 + step % 3});
    pushes.back().acknowledged = table.push(pushes.back().places, pushes.back().value).applied;
  }

  /// What happens to, or in front of, the victim. @return whether it goes on.
  bool strike(int worker, int step, std::unique_ptr<Client>& client,
              std::unique_ptr<AnyTable>& table) {
    const auto lose_server = [this](int server) { cluster_.end_server(server % plan_.servers); };
    progress_.wait_for_others(worker, 1, 0);  // who comes while a server is lost waits for it
    switch (plan_.fault) {
      case Fault::kWorkerLost:
        client.reset();
        table.reset();
        return false;
      case Fault::kWorkerCut:
        saboteur_ =
            Thread("saboteur", [this, worker] { each_link(worker, &wire::MemoryNetwork::cut); });
        return true;
      case Fault::kWorkerBack:
        table.reset();
        client.reset();
        client = cluster_.client(worker);
        table = std::make_unique<AnyTable>(*client, plan_, worker, worker == 0);
        return true;
      case Fault::kWorkerSlow: {
        int done = kSteps;
        const ConsistencyOptions& consistency = plan_.consistency;
        if (consistency.kind == Consistency::kBounded) {
          done = step + static_cast<int>(consistency.staleness);
        } else if (consistency.kind == Consistency::kSynchronous) {
          // Those who go on without it end at about the same time.
          done = std::min(step + consistency.backups, kSteps - 2);
        }
        progress_.wait_for_others(worker, 0, std::min(done, kSteps));
        return true;
      }
      case Fault::kWorkerSilent:
        each_link(worker, &wire::MemoryNetwork::silence);
        return true;
      case Fault::kServerAndWorkerLost:
        sabotage([=, this] { lose_server(plan_.server); });
        table.reset();
        client.reset();
        return false;
      case Fault::kServerLost:
        sabotage([=, this] { lose_server(plan_.server); });
        return true;
      case Fault::kServerLostWorkerLate:
        lose_server(plan_.server);
        table.reset();  // as good as one that comes for the first time
        client.reset();
        if (!plan_.backup) return false;  // it would wait for the server
        client = cluster_.client(worker);
        table = std::make_unique<AnyTable>(*client, plan_, worker, worker == 0);
        return true;
      case Fault::kTwoServersLost:
        sabotage([=, this] {
          lose_server(plan_.server);
          lose_server(plan_.server + 1);
        });
        return true;
      case Fault::kServerSilent:
        for (int other = 0; other < plan_.servers; ++other) {
          if (other != plan_.server) {
            cluster_.network().silence(server_host(plan_.server), server_host(other));
          }
        }
        for (int other = 0; other <= plan_.workers(); ++other) {
          cluster_.network().silence(server_host(plan_.server), worker_host(other));
        }
        return true;
      case Fault::kNotFinite:
        for (const double bad :
             {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
          const std::set<int64_t> all = {0, 1, 2, 3, 4, 5};
          expect_error_containing([&] { table->push(all, bad); }, ErrorCode::kInvalidArgument,
                                  str_cat("[ps] table 'weights': got a gradient that is not finite "
                                          "from /job:worker/task:",
                                          worker));
        }
        return true;
      case Fault::kWrongShape:
        push_a_wrong_shape();
        return true;
      case Fault::kWorkersLink:
        cut_after(worker_host(worker));
        return true;
      case Fault::kServersLink:
        cut_after(server_host((plan_.server + 1) % plan_.servers));
        return true;
      case Fault::kWorkerLate:
        return true;
    }
    return true;
  }

  void each_link(int worker,
                 void (wire::MemoryNetwork::*change)(const std::string&, const std::string&)) {
    for (int server = 0; server < plan_.servers; ++server) {
      (cluster_.network().*change)(worker_host(worker), server_host(server));
    }
  }

  /// As no table of ours would.
  void push_a_wrong_shape() {
    const int stranger = plan_.workers();
    ServerCalls calls(cluster_.spec(), {"worker", stranger},
                      {.server = {.transport = cluster_.network().transport(worker_host(stranger))},
                       .timeout = 60s});
    const std::vector<std::byte> data(24);
    expect_error_containing(
        [&] {
          calls.run({{.server = plan_.server,
                      .request = {.kind = plan_.rows ? RequestKind::kPushRows : RequestKind::kPush,
                                  .table = "weights",
                                  .data_bytes = data.size(),
                                  .sequence = 1},
                      .out = {data}}},
                    "push");
        },
        ErrorCode::kInvalidArgument,
        str_cat("[ps] push: /job:ps/task:", plan_.server, ": [ps] table 'weights': got 24 bytes"));
  }

  void check_outcomes() const {
    for (int worker = 0; worker < plan_.workers(); ++worker) {
      const Status& outcome = outcomes_[static_cast<size_t>(worker)];
      const bool victim = worker == plan_.worker;
      const bool own_end =
          victim && (plan_.fault == Fault::kWorkerCut || plan_.fault == Fault::kWorkerSilent ||
                     (plan_.fault == Fault::kWorkersLink && !plan_.backup));
      // It may have had no call to it any more.
      if (outcome.ok()) continue;
      ASSERT_TRUE(plan_.ends_the_job() || own_end) << worker << ": " << outcome.message();
      EXPECT_EQ(outcome.code(), ErrorCode::kUnavailable) << outcome.message();
      const auto names = [&](int server) {
        return outcome.message().find(str_cat("/job:ps/task:", server)) != std::string::npos;
      };
      EXPECT_TRUE(names(plan_.server) || names((plan_.server + 1) % plan_.servers) ||
                  plan_.fault == Fault::kWorkerCut || plan_.fault == Fault::kWorkerSilent)
          << outcome.message();
    }
  }

  /// Of those who come later: what the servers have is what was pushed.
  void look() {
    if (plan_.heals) {
      for (int server = 0; server < plan_.servers; ++server) {
        for (int other = 0; other < plan_.servers; ++other) {
          if (other != server) cluster_.network().heal(server_host(server), server_host(other));
        }
        for (int worker = 0; worker <= plan_.workers(); ++worker) {
          cluster_.network().heal(server_host(server), worker_host(worker));
        }
      }
    }
    const auto client = cluster_.client(plan_.workers());
    AnyTable table(*client, plan_, plan_.workers(), /*first=*/false);
    check(table, at::zeros(table.read().sizes(), at::kDouble));
  }

  void check(AnyTable& table, const at::Tensor& base) const {
    int64_t acknowledged = 0;
    int64_t others = 0;
    for (const std::vector<Push>& pushes : pushes_) {
      for (const Push& push : pushes) ++(push.acknowledged ? acknowledged : others);
    }
    for (const TableCounters& each : table.counters()) {
      EXPECT_GE(each.pushes, acknowledged);
      EXPECT_LE(each.pushes, acknowledged + others);
      EXPECT_LE(each.version, each.pushes + base_version_);
      if (plan_.consistency.kind == Consistency::kBounded) {
        EXPECT_LE(each.most_lead, plan_.consistency.staleness);
      }
    }
    // Where nobody is lost, or a backup is there, and no step goes on without somebody, all count.
    const bool cut_off = plan_.fault == Fault::kWorkerCut || plan_.in_silence() ||
                         plan_.fault == Fault::kWorkersLink;
    EXPECT_TRUE(plan_.consistency.backups > 0 || cut_off || others == 0) << others;
    if (!plan_.counts()) return;
    const at::Tensor values = table.read();
    const auto* now = values.const_data_ptr<double>();
    const auto* before = base.const_data_ptr<double>();
    const int64_t a_place = plan_.rows ? kWidth : 1;
    for (int64_t i = 0; i < values.numel(); ++i) {
      EXPECT_EQ(now[i], now[i / a_place * a_place]);
      EXPECT_TRUE(is_sum(before[i] - now[i], i / a_place)) << i << ": " << now[i];
    }
  }

  /// Whether it is the sum of the acknowledged pushes to `place`, and of some others.
  bool is_sum(double sum, int64_t place) const {
    std::set<int> sums = {0};
    for (const std::vector<Push>& pushes : pushes_) {
      for (const Push& push : pushes) {
        if (plan_.rows && !push.places.contains(place)) continue;
        std::set<int> more = push.acknowledged ? std::set<int>() : sums;
        for (const int each : sums) more.insert(each + push.value);
        sums = std::move(more);
      }
    }
    return sums.contains(static_cast<int>(sum)) && sum == static_cast<int>(sum);
  }

  /// All tasks, with another number of servers, from what the chief has saved.
  void start_again() {
    Plan plan = plan_;
    plan.servers = plan_.servers % 3 + 1;
    plan.backup = plan_.backup && plan.servers > 1;
    plan.fault = Fault::kWorkerLate;
    plan.worker = -1;
    Job again(plan);
    again.base_ = saved_;
    again.base_version_ = saved_version_;
    again.resume();
  }

  void resume() {
    const auto last = cluster_.client(plan_.workers());
    std::vector<Thread> threads;
    for (int worker = 0; worker < plan_.workers(); ++worker) {
      threads.emplace_back("worker", [this, worker] {
        try {
          const auto client = cluster_.client(worker);
          AnyTable table(*client, plan_, worker, worker == 0);
          if (worker == 0 && base_.defined()) table.write(base_, base_version_);
          progress_.begin(worker);
          progress_.wait_for_others(worker, 1, 0);
          for (int step = 0; step < 2; ++step) push(worker, step, table);
          client->leave(/*job_done=*/worker == 0);
        } catch (const Error& error) {
          ADD_FAILURE() << "started again, worker " << worker << ": " << error.what();
        }
      });
    }
    threads.clear();
    AnyTable table(*last, plan_, plan_.workers(), /*first=*/false);
    check(table, base_.defined() ? base_ : at::zeros(table.read().sizes(), at::kDouble));
    last->leave(/*job_done=*/false);
    for (int server = 0; server < plan_.servers; ++server) cluster_.server(server).join();
  }

  const Plan plan_;
  PsCluster cluster_;
  Progress progress_;
  std::vector<std::vector<Push>> pushes_;  // by worker, whose thread writes them
  std::vector<Status> outcomes_;
  at::Tensor saved_;  // the chief's checkpoint
  int64_t saved_version_ = 0;
  at::Tensor base_;
  int64_t base_version_ = 0;
  Thread saboteur_;
};

TEST(PsFaultsTest, WhateverHappensWheneverTheOutcomeIsTheDocumentedOne) {
  const int runs = test::from_environment("STRATA_SOAK_PS_FAULTS", 20);
  const auto first =
      static_cast<uint64_t>(test::from_environment("STRATA_SOAK_SEED", 1)) * 1'000'000;
  const int only = test::from_environment("STRATA_TEST_ONLY", -1);
  const bool verbose = test::from_environment("STRATA_TEST_VERBOSE", 0) != 0;
  std::atomic<int> next = 0;
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {  // they wait much of the time
    threads.emplace_back("faults", [&] {
      for (int run = next++; run < runs && !HasFailure(); run = next++) {
        if ((only >= 0 && run != only) || run % 10 == 9) continue;
        const Plan plan = draw(first + static_cast<uint64_t>(run));
        const auto start = std::chrono::steady_clock::now();
        try {
          Job(plan).run();
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        if (verbose || HasFailure()) {
          std::printf("%d, %s: %.2f s%s\n", run, plan.describe().c_str(), took.count(),
                      HasFailure() ? ", a failure till then" : "");
        }
      }
    });
  }
}

}  // namespace
}  // namespace strata::ps
