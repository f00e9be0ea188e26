// Jobs with parameter servers as processes: at a moment that the seed chooses a worker or a server
// is killed, or stopped for a while. Nobody hangs, each outcome is the documented one
// (docs/parameter_servers.md), and in synchronous training, where no worker was lost, the weights
// are those of a job that nobody disturbed: with a backup at once, else started again from the
// checkpoint.
//
// STRATA_SOAK_PS_FAULTS=500 takes as many seeds, one of ten here, the others in
// tests/ps/faults_test.cc; STRATA_SOAK_SEED=n others, and STRATA_TEST_ONLY=i only the i-th of them.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "parameter_servers/job_checks.h"
#include "strata/core/str_cat.h"
#include "support/killed_program.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using cluster::TaskId;
using test::expect_good;
using test::ProcessCluster;
using test::sha_of;
using namespace std::chrono_literals;

struct Plan {
  uint64_t seed = 0;
  bool together = false;
  bool backup = false;
  int workers = 1;
  int servers = 1;
  TaskId victim;
  bool stop = false;  // and goes on later; else it is killed
  bool back = false;  // a worker: is started again
  int step = 0;       // the chief's
  std::chrono::milliseconds later{0};

  int steps() const { return together ? 40 : 400; }
  std::string describe() const {
    return str_cat("seed ", seed, ": ", victim.to_string(), stop ? " stopped" : " killed",
                   back ? ", back again" : "", " ", later.count(), " ms after step ", step,
                   together ? ", together, " : ", apart, ", workers, " workers, ", servers,
                   " servers", backup ? ", backup" : "");
  }
};

Plan draw(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % uint64_t(limit)); };
  Plan plan;
  plan.seed = seed;
  plan.together = below(3) > 0;
  plan.workers = 1 + below(2);
  plan.servers = 1 + below(3);
  plan.backup = plan.servers > 1 && below(3) > 0;
  const bool server = below(2) == 0;
  plan.victim = {server ? "ps" : "worker", below(server ? plan.servers : plan.workers)};
  plan.stop = below(3) == 0;
  plan.back = !plan.stop && below(2) == 0;
  plan.step = 1 + below(plan.steps() * 2 / 3);
  plan.later = std::chrono::milliseconds(below(30));
  return plan;
}

/// A job under one plan.
class Job {
 public:
  explicit Job(const Plan& plan) : plan_(plan) {}

  void run() {
    const auto cluster = start(plan_.servers, plan_.backup);
    if (!all_have_begun(*cluster)) return;
    // Apart, others make most of the numbers, or all: what is over then has nothing to lose.
    const std::string moment =
        plan_.together ? str_cat("step ", plan_.step, "\n") : str_cat("\nstep ", plan_.step / 10);
    const bool come = cluster->wait_for_output(kChief, moment, 120s);
    ASSERT_TRUE(come || (!plan_.together && cluster->wait_for_output(kChief, "sha256", 1s)))
        << cluster->output(kChief);
    (void)cluster->wait_for_output(kChief, "(never)", plan_.later);
    cluster->kill(plan_.victim, plan_.stop ? SIGSTOP : SIGKILL);
    if (plan_.victim.job == "ps") {
      lost_server(*cluster);
    } else {
      lost_worker(*cluster);
    }
  }

 private:
  static inline const TaskId kChief = {"worker", 0};

  std::unique_ptr<ProcessCluster> start(int servers, bool backup) const {
    std::vector<std::string> arguments = {plan_.together ? "together" : "apart", folder_.path(),
                                          str_cat(plan_.steps())};
    if (backup) arguments.push_back("backup");
    auto cluster = std::make_unique<ProcessCluster>(
        STRATA_PS_TRAINER, std::move(arguments),
        std::map<std::string, int>{{"worker", plan_.workers}, {"ps", servers}});
    cluster->start();
    return cluster;
  }

  /// Who comes to a server that is lost waits for it. @return false: the chief had no need of them.
  bool all_have_begun(ProcessCluster& cluster) const {
    const auto start = std::chrono::steady_clock::now();
    for (int worker = 0; worker < plan_.workers; ++worker) {
      while (!cluster.wait_for_output({"worker", worker}, "starts at step", 100ms)) {
        if (cluster.output(kChief).find("sha256") != std::string::npos) return false;
        if (std::chrono::steady_clock::now() - start > 120s) {
          ADD_FAILURE() << "worker " << worker << ": " << cluster.output({"worker", worker});
          return false;
        }
      }
    }
    return true;
  }

  void lost_server(ProcessCluster& cluster) const {
    // It comes back in the middle of the job: others have its place.
    const bool back = plan_.stop && plan_.backup && !plan_.together;
    if (back && cluster.wait_for_output(kChief, "takes its place", 120s)) {
      cluster.kill(plan_.victim, SIGCONT);
    }
    bool complete = true;
    for (int worker = 0; worker < plan_.workers; ++worker) {
      const TaskId task = {"worker", worker};
      const ProcessCluster::Exit exit = cluster.wait(task, 120s);
      if (plan_.backup || exit.code == 0) {
        expect_good(exit, task);
        check_weights(exit.output);
        continue;
      }
      complete = false;
      EXPECT_TRUE(exit.in_time && exit.code == 1) << exit.output;
      EXPECT_NE(exit.output.find(plan_.victim.to_string()), std::string::npos) << exit.output;
    }
    if (plan_.stop) {  // it comes back, and need not be there
      cluster.kill(plan_.victim, SIGCONT);
      cluster.kill(plan_.victim);
    }
    if (complete) {
      for (int server = 0; server < plan_.servers; ++server) {
        const TaskId task = {"ps", server};
        if (task != plan_.victim) expect_good(cluster.wait(task, 120s), task);
      }
      return;
    }
    for (const TaskId& task : cluster.tasks()) cluster.kill(task);
    const auto again = start(plan_.servers % 3 + 1, false);
    for (const auto& [task, exit] : again->wait(120s)) {
      expect_good(exit, task);
      if (task.job == "worker") check_weights(exit.output);
    }
  }

  void lost_worker(ProcessCluster& cluster) const {
    if (plan_.stop) {  // for less than the liveness interval: forgiven
      (void)cluster.wait_for_output(plan_.victim, "(never)", 300ms);
      cluster.kill(plan_.victim, SIGCONT);
      for (const auto& [task, exit] : cluster.wait(120s)) expect_good(exit, task);
      return;
    }
    const ProcessCluster::Exit first = cluster.wait(plan_.victim, 120s);
    const bool over = first.code == 0;
    // The servers end when the chief says so.
    const bool back = !over && (plan_.back || plan_.victim == kChief);
    if (back) cluster.start(plan_.victim);
    for (const TaskId& task : cluster.tasks()) {
      if (task != plan_.victim) expect_good(cluster.wait(task, 120s), task);
    }
    // Perhaps all was over when it came; if not, the servers have waited for it.
    const bool there = cluster.output(plan_.victim).find("starts at step") != std::string::npos;
    if (back && there) expect_good(cluster.wait(plan_.victim, 120s), plan_.victim);
  }

  void check_weights(const std::string& output) const {
    if (!plan_.together) return;
    static std::mutex mutex;
    static std::map<int, std::string> known;
    const std::lock_guard lock(mutex);
    std::string& expected = known[plan_.workers];
    if (expected.empty()) {
      Plan calm = plan_;
      calm.backup = false;
      const Job job(calm);
      expected = sha_of(job.start(1, false)->wait(kChief, 120s).output);
      EXPECT_EQ(expected.size(), 71) << expected;
    }
    EXPECT_EQ(sha_of(output), expected);
  }

  const Plan plan_;
  const test::TempFolder folder_;
};

TEST(PsFaultsTest, WhateverHappensToAProcessTheOutcomeIsTheDocumentedOne) {
  const int runs = test::from_environment("STRATA_SOAK_PS_FAULTS", 20);
  const auto first =
      static_cast<uint64_t>(test::from_environment("STRATA_SOAK_SEED", 1)) * 1'000'000;
  const int only = test::from_environment("STRATA_TEST_ONLY", -1);
  const bool verbose = test::from_environment("STRATA_TEST_VERBOSE", 0) != 0;
  for (int run = 9; run < runs && !HasFailure(); run += 10) {
    if (only >= 0 && run != only) continue;
    const Plan plan = draw(first + static_cast<uint64_t>(run));
    SCOPED_TRACE(str_cat(run, ", ", plan.describe()));
    const auto start = std::chrono::steady_clock::now();
    Job(plan).run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (verbose) std::printf("%d, %s: %.1f s\n", run, plan.describe().c_str(), took.count());
  }
}

}  // namespace
}  // namespace strata
