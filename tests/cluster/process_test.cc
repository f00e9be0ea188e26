// Clusters of processes over 127.0.0.1: killed, stopped, started again.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>

#include "strata/core/str_cat.h"
#include "support/process_cluster.h"

namespace strata::test {
namespace {

using cluster::TaskId;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

ProcessCluster make(std::vector<std::string> arguments, const std::map<std::string, int>& jobs) {
  return {STRATA_CLUSTER_TASK, std::move(arguments), jobs};
}

void expect_done(const ProcessCluster::Exit& exit, const TaskId& task) {
  EXPECT_TRUE(exit.in_time) << task.to_string();
  EXPECT_EQ(exit.code, 0) << task.to_string() << "\n" << exit.output;
  EXPECT_NE(exit.output.find("done\n"), std::string::npos) << exit.output;
}

TEST(ProcessClusterTest, AllMeetWorkAndEndWell) {
  auto cluster = make({"rounds", "20"}, {{"chief", 1}, {"worker", 2}, {"evaluator", 1}});
  cluster.start();
  for (const auto& [task, exit] : cluster.wait()) expect_done(exit, task);
}

TEST(ProcessClusterTest, ALateTaskIsWaitedFor) {
  auto cluster = make({"rounds", "3"}, {{"worker", 3}});
  cluster.start({"worker", 2});
  cluster.start({"worker", 1});
  cluster.start({"worker", 0});
  for (const auto& [task, exit] : cluster.wait()) expect_done(exit, task);
}

// A task that is SIGKILLed while the others wait for data from their neighbours.
TEST(ProcessClusterTest, AKilledTaskIsNamedByAllWithinTwoSeconds) {
  for (const int killed : {0, 1, 3}) {
    auto cluster = make({"hold"}, {{"worker", 4}});
    cluster.start();
    for (const TaskId& task : cluster.tasks())
      ASSERT_TRUE(cluster.wait_for_output(task, "holding"));
    const auto start = steady_clock::now();
    cluster.kill({"worker", killed});
    for (const TaskId& task : cluster.tasks()) {
      const auto exit = cluster.wait(task);
      EXPECT_LT(seconds_since(start), 2.0);
      if (task.index == killed) {
        EXPECT_EQ(exit.signal, SIGKILL);
        continue;
      }
      EXPECT_EQ(exit.code, 1);
      EXPECT_NE(exit.output.find("error UNAVAILABLE"), std::string::npos) << exit.output;
      for (const std::string& part :
           {TaskId{"worker", killed}.to_string(), cluster.spec().task_address("worker", killed),
            std::string("all_reduce dense/kernel, step 17"), std::string("is lost")}) {
        EXPECT_NE(exit.output.find(part), std::string::npos) << part << "\n" << exit.output;
      }
    }
  }
}

TEST(ProcessClusterTest, AStoppedTaskIsNamedByAllWithinTheInterval) {
  for (const int stopped : {0, 2}) {
    auto cluster = make({"hold"}, {{"worker", 3}});
    for (const TaskId& task : cluster.tasks()) {
      cluster.set_environment(task, "STRATA_LIVENESS_MS", "2000");
    }
    cluster.start();
    for (const TaskId& task : cluster.tasks())
      ASSERT_TRUE(cluster.wait_for_output(task, "holding"));
    const auto start = steady_clock::now();
    cluster.kill({"worker", stopped}, SIGSTOP);
    for (const TaskId& task : cluster.tasks()) {
      if (task.index == stopped) continue;
      const auto exit = cluster.wait(task);
      EXPECT_TRUE(exit.in_time);
      EXPECT_LT(seconds_since(start), 3.0);
      EXPECT_NE(exit.output.find(TaskId{"worker", stopped}.to_string()), std::string::npos)
          << exit.output;
      EXPECT_NE(exit.output.find("was silent for"), std::string::npos) << exit.output;
    }
    // It finds out itself when it goes on.
    cluster.kill({"worker", stopped}, SIGCONT);
    const auto exit = cluster.wait({"worker", stopped});
    EXPECT_TRUE(exit.in_time);
    EXPECT_EQ(exit.code, 1) << exit.output;
  }
}

TEST(ProcessClusterTest, AShortStopIsForgiven) {
  auto cluster = make({"rounds", "40", "20"}, {{"worker", 3}});
  for (const TaskId& task : cluster.tasks()) {
    cluster.set_environment(task, "STRATA_LIVENESS_MS", "8000");
  }
  cluster.start();
  for (const int stopped : {1, 0}) {
    ASSERT_TRUE(cluster.wait_for_output({"worker", stopped}, "round 5"));
    cluster.kill({"worker", stopped}, SIGSTOP);
    // The others come to a stop, too; then it goes on.
    (void)cluster.wait_for_output({"worker", 2}, "round 39", 500ms);
    cluster.kill({"worker", stopped}, SIGCONT);
  }
  for (const auto& [task, exit] : cluster.wait()) expect_done(exit, task);
}

TEST(ProcessClusterTest, AKilledTaskThatIsStartedAgainComesBack) {
  for (const int killed : {2, 0}) {
    auto cluster = make({"rejoin", "30", "10"}, {{"worker", 3}});
    cluster.start();
    const TaskId task = {"worker", killed};
    ASSERT_TRUE(cluster.wait_for_output(task, "round 3"));
    cluster.kill(task);
    EXPECT_EQ(cluster.wait(task).signal, SIGKILL);
    cluster.start(task);
    for (const auto& [each, exit] : cluster.wait()) {
      expect_done(exit, each);
      EXPECT_NE(exit.output.find("generation 2"), std::string::npos) << exit.output;
    }
  }
}

// Kills or stops a random task at a random moment: rendezvous, rounds, shutdown. Nobody hangs, and
// who does not end well names the task.
TEST(ProcessClusterTest, WhateverHappensWheneverNobodyHangs) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 8; ++run) {
    SCOPED_TRACE(run);
    auto cluster = make({"rounds", "10"}, {{"worker", 3}});
    for (const TaskId& task : cluster.tasks()) {
      cluster.set_environment(task, "STRATA_LIVENESS_MS", "1500");
      cluster.set_environment(task, "STRATA_START_MS", "3000");
    }
    const TaskId victim = {"worker", static_cast<int>(random() % 3)};
    const int signal = random() % 2 == 0 ? SIGKILL : SIGSTOP;
    const auto moment = std::chrono::milliseconds(random() % 40);
    cluster.start();
    (void)cluster.wait_for_output(victim, "(never)", moment);
    cluster.kill(victim, signal);
    for (const TaskId& task : cluster.tasks()) {
      if (task == victim) continue;
      const auto exit = cluster.wait(task, 30s);
      EXPECT_TRUE(exit.in_time) << task.to_string() << "\n" << exit.output;
      if (exit.code == 0) continue;
      EXPECT_NE(exit.output.find(victim.to_string()), std::string::npos) << task.to_string() << "\n"
                                                                         << exit.output;
    }
    cluster.kill(victim, SIGKILL);
  }
}

}  // namespace
}  // namespace strata::test
