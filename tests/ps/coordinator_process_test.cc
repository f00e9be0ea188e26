// A coordinator and workers that are processes over 127.0.0.1: killed, stopped, started again.
//
// STRATA_SOAK_COORDINATOR_FAULTS=500 takes as many seeds; STRATA_SOAK_SEED=n others, and
// STRATA_TEST_ONLY=i only the i-th of them.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "ps/coordinator_processes.h"
#include "strata/core/str_cat.h"
#include "support/killed_program.h"

namespace strata::test {
namespace {

using cluster::TaskId;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

void expect_said(const TaskId& task, const TaskId& whose, const ProcessCluster::Exit& exit,
                 const std::string& what) {
  EXPECT_TRUE(task != whose || exit.output.find(what) != std::string::npos) << exit.output;
}

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

TEST(CoordinatorProcessTest, AllWorkAndEndWell) {
  auto cluster = coordinator_processes({"run", "500", "0", "3"}, 3);
  cluster.start();
  for (const auto& [task, exit] : cluster.wait()) {
    expect_done(exit, task);
    expect_said(task, kChief, exit, "checked 500, lost 0");
  }
}

TEST(CoordinatorProcessTest, AKilledWorkersCallsRunElsewhereAndItComesBack) {
  auto cluster = coordinator_processes({"run", "2000", "500", "2"}, 2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_for_output(kChief, "round 3, 2 ready"));
  cluster.kill(worker(0));
  EXPECT_EQ(cluster.wait(worker(0)).signal, SIGKILL);
  ASSERT_TRUE(cluster.wait_for_output(kChief, ", 1 ready"));
  cluster.start(worker(0));
  for (const auto& [task, exit] : cluster.wait()) {
    expect_done(exit, task);
    expect_said(task, kChief, exit, "checked 2000, lost 1");
  }
}

TEST(CoordinatorProcessTest, AStoppedWorkerIsFoundWithinTheIntervalAndTakesPartAgain) {
  auto cluster = coordinator_processes({"run", "3000", "500", "2"}, 2);
  set_all(cluster, "STRATA_LIVENESS_MS", "1000");
  cluster.start();
  ASSERT_TRUE(cluster.wait_for_output(kChief, "round 3, 2 ready"));
  const auto start = steady_clock::now();
  cluster.kill(worker(1), SIGSTOP);
  ASSERT_TRUE(cluster.wait_for_output(kChief, ", 1 ready"));
  EXPECT_LT(seconds_since(start), 2.5);
  cluster.kill(worker(1), SIGCONT);
  for (const auto& [task, exit] : cluster.wait()) {
    expect_done(exit, task);
    expect_said(task, kChief, exit, "checked 3000, lost 1");
  }
}

TEST(CoordinatorProcessTest, AShortStopIsForgiven) {
  auto cluster = coordinator_processes({"run", "1000", "200", "2"}, 2);
  cluster.start();
  for (const TaskId& stopped : {worker(0), kChief}) {
    ASSERT_TRUE(cluster.wait_for_output(kChief, "round 1,"));
    cluster.kill(stopped, SIGSTOP);
    (void)cluster.wait_for_output(kChief, "never", 300ms);
    cluster.kill(stopped, SIGCONT);
  }
  for (const auto& [task, exit] : cluster.wait()) {
    expect_done(exit, task);
    expect_said(task, kChief, exit, "checked 1000, lost 0");
  }
}

TEST(CoordinatorProcessTest, AllWorkersKilledItWaitsUntilTheyReturn) {
  auto cluster = coordinator_processes({"run", "1000", "500", "2"}, 2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_for_output(kChief, "round 3,"));
  for (const int each : {0, 1}) {
    cluster.kill(worker(each));
    EXPECT_EQ(cluster.wait(worker(each)).signal, SIGKILL);
  }
  cluster.start(worker(0));
  cluster.start(worker(1));
  for (const auto& [task, exit] : cluster.wait()) expect_done(exit, task);
}

TEST(CoordinatorProcessTest, AKilledCoordinatorThatIsStartedAgainFindsTheWorkers) {
  auto cluster = coordinator_processes({"run", "1000", "500", "2"}, 2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_for_output(kChief, "round 3, 2 ready"));
  cluster.kill(kChief);
  EXPECT_EQ(cluster.wait(kChief).signal, SIGKILL);
  cluster.start(kChief);
  for (const auto& [task, exit] : cluster.wait()) expect_done(exit, task);
}

TEST(CoordinatorProcessTest, WithoutCoordinatorTheWorkersEndAfterTheirTimeout) {
  auto cluster = coordinator_processes({"run", "10000", "1000", "2"}, 2);
  set_all(cluster, "STRATA_TIMEOUT_MS", "500");
  cluster.start(kChief);
  for (const int each : {0, 1}) cluster.start(worker(each));
  ASSERT_TRUE(cluster.wait_for_output(kChief, "round 1,"));
  cluster.kill(kChief);
  for (const int each : {0, 1}) {
    const auto exit = cluster.wait(worker(each), 20s);
    EXPECT_EQ(exit.code, 1);
    EXPECT_NE(exit.output.find("error UNAVAILABLE: [ps] /job:worker/task:"), std::string::npos)
        << exit.output;
    EXPECT_NE(exit.output.find("no coordinator was connected for 0.5 s"), std::string::npos)
        << exit.output;
  }
}

TEST(CoordinatorProcessTest, AProgramWithOtherFunctionsIsNamed) {
  auto cluster = coordinator_processes({"run", "100", "0", "1"}, 1);
  cluster.set_environment(worker(0), "STRATA_REGISTRY", "surplus");
  cluster.start();
  const auto exit = cluster.wait(kChief);
  EXPECT_EQ(exit.code, 1);
  for (const std::string part : {"error FAILED_PRECONDITION", "/job:worker/task:0 at 127.0.0.1:",
                                 "only here: surplus() -> nothing; only there: nothing"}) {
    EXPECT_NE(exit.output.find(part), std::string::npos) << exit.output;
  }
  cluster.kill(worker(0));
}

// At a random moment somebody is killed or stopped, and comes back after a while. Nothing hangs,
// and every result is right.
void one_fault(uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const int workers = 1 + static_cast<int>(random() % 3);
  auto cluster =
      coordinator_processes({"run", "400", str_cat(random() % 500), str_cat(workers)}, workers);
  set_all(cluster, "STRATA_LIVENESS_MS", "1000");
  set_all(cluster, "STRATA_THREADS", str_cat(1 + random() % 2));
  const bool chief = random() % 3 == 0;
  const TaskId victim =
      chief ? kChief : worker(static_cast<int>(random() % static_cast<uint64_t>(workers)));
  const bool stop = random() % 2 == 0;
  const auto moment = std::chrono::milliseconds(random() % 400);
  const auto pause = std::chrono::milliseconds(random() % 1500);
  cluster.start();
  (void)cluster.wait_for_output(victim, "(never)", moment);
  cluster.kill(victim, stop ? SIGSTOP : SIGKILL);
  (void)cluster.wait_for_output(victim, "(never)", pause);
  const bool over = cluster.output(kChief).find("checked") != std::string::npos;
  if (stop) cluster.kill(victim, SIGCONT);
  if (over) {  // it came too late, and whom it met may not have heard the end
    if (victim != kChief || stop) expect_done(cluster.wait(kChief, 60s), kChief);
    return;
  }
  if (!stop) {
    (void)cluster.wait(victim, 30s);
    cluster.start(victim);
  }
  const auto ended = cluster.wait(kChief, 60s);
  expect_done(ended, kChief);
  // Killed in the very moment in which all was done: who came in its place has nobody to serve.
  const bool unnoticed = !stop && !chief && ended.output.find("lost 0") != std::string::npos;
  for (const TaskId& task : cluster.tasks()) {
    if (unnoticed && task == victim) continue;
    expect_done(cluster.wait(task, 60s), task);
  }
}

TEST(CoordinatorProcessTest, WhateverHappensWheneverNobodyHangs) {
  const auto first = static_cast<uint64_t>(from_environment("STRATA_SOAK_SEED", 1)) * 1'000'000;
  const int runs = from_environment("STRATA_SOAK_COORDINATOR_FAULTS", 12);
  const int only = from_environment("STRATA_TEST_ONLY", -1);
  // They wait much of the time.
  std::atomic<int> next = 0;
  std::vector<Thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back("faults", [&] {
      for (int run = next++; run < runs; run = next++) {
        if (only < 0 || run == only) one_fault(first + static_cast<uint64_t>(run));
      }
    });
  }
}

}  // namespace
}  // namespace strata::test
