// Clusters of processes over 127.0.0.1: killed, stopped, started again.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>

#include "strata/core/str_cat.h"
#include "support/killed_program.h"
#include "support/process_cluster.h"
#include "wire/relay.h"

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

// Ends with the same error on all that are left, which names `lost` and what it did.
void expect_one_error(ProcessCluster& cluster, const TaskId& lost, const std::string& how,
                      double within, steady_clock::time_point start) {
  std::string first;
  for (const TaskId& task : cluster.tasks()) {
    if (task == lost) continue;
    const auto exit = cluster.wait(task);
    EXPECT_TRUE(exit.in_time);
    EXPECT_LT(seconds_since(start), within);
    EXPECT_EQ(exit.code, 1) << exit.output;
    const size_t at = exit.output.find(" ms: ");
    const std::string error = exit.output.substr(at == std::string::npos ? 0 : at);
    for (const std::string& part :
         {lost.to_string() + " at " + cluster.spec().task_address(lost.job, lost.index), how,
          std::string("all_reduce dense/kernel, step ")}) {
      EXPECT_NE(error.find(part), std::string::npos) << part << "\n" << exit.output;
    }
    // Of a leader that is lost each has heard its own last word.
    const std::string text = error.substr(0, error.find("; its last known"));
    if (first.empty()) first = text;
    EXPECT_EQ(text, first);
  }
}

// Every connection is full of what nobody has read yet: no reason fits in.
TEST(ProcessClusterTest, AKilledTaskIsNamedByAllOverFullConnections) {
  for (const int killed : {0, 1, 3}) {
    auto cluster = make({"exchange", "1000000", "8000000"}, {{"worker", 4}});
    cluster.start();
    for (const TaskId& task : cluster.tasks())
      ASSERT_TRUE(cluster.wait_for_output(task, "exchanging"));
    const auto start = steady_clock::now();
    cluster.kill({"worker", killed});
    expect_one_error(cluster, {"worker", killed}, "is lost: it closed its connection", 2.0, start);
  }
}

TEST(ProcessClusterTest, AStoppedTaskIsNamedByAllOverFullConnections) {
  for (const int stopped : {0, 2}) {
    auto cluster = make({"exchange", "1000000", "8000000"}, {{"worker", 3}});
    for (const TaskId& task : cluster.tasks()) {
      cluster.set_environment(task, "STRATA_LIVENESS_MS", "2000");
    }
    cluster.start();
    for (const TaskId& task : cluster.tasks())
      ASSERT_TRUE(cluster.wait_for_output(task, "exchanging"));
    const auto start = steady_clock::now();
    cluster.kill({"worker", stopped}, SIGSTOP);
    expect_one_error(cluster, {"worker", stopped}, "is lost: it was silent for", 3.0, start);
    cluster.kill({"worker", stopped}, SIGKILL);
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

// One run: rendezvous, a few rounds of barriers, keys and data, shutdown; at a random moment a task
// is killed or stopped, or a link is cut. Who does not end well names a task at the fault.
void one_fault(uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  auto cluster = make({"exchange", "12", "200000"}, {{"worker", 3}});
  const TaskId victim = {"worker", static_cast<int>(random() % 3)};
  const uint64_t kind = random() % 3;
  // Whoever is a neighbour of the link: the later tasks dial the earlier ones.
  std::vector<TaskId> at_fault = {victim};
  std::unique_ptr<wire::Relay> link;
  for (const TaskId& task : cluster.tasks()) {
    cluster.set_environment(task, "STRATA_LIVENESS_MS", "1000");
    cluster.set_environment(task, "STRATA_START_MS", "2000");
    if (kind == 2 && task.index > victim.index) at_fault.push_back(task);
  }
  if (kind == 2) {
    const auto port = static_cast<uint16_t>(free_ports(1)[0]);
    const auto address = wire::Address::parse(cluster.spec().task_address("worker", victim.index));
    link = std::make_unique<wire::Relay>(wire::Address{.host = "127.0.0.1", .port = port},
                                         address.port);
    cluster.set_environment(victim, "STRATA_LISTEN", str_cat("127.0.0.1:", port));
  }
  const auto moment = std::chrono::milliseconds(random() % 150);
  cluster.start();
  (void)cluster.wait_for_output(victim, "(never)", moment);
  const auto start = steady_clock::now();
  if (kind == 2) {
    link->cut();
  } else {
    cluster.kill(victim, kind == 0 ? SIGKILL : SIGSTOP);
  }
  for (const TaskId& task : cluster.tasks()) {
    if (task == victim && kind != 2) continue;
    const auto exit = cluster.wait(task, 30s);
    EXPECT_TRUE(exit.in_time) << task.to_string() << "\n" << exit.output;
    // Before all have met only the start's timeout ends the wait.
    const bool had_met = exit.output.find("generation") != std::string::npos;
    EXPECT_LT(seconds_since(start), had_met ? 3.5 : 5.0) << exit.output;
    if (exit.code == 0) continue;
    EXPECT_TRUE(std::ranges::any_of(at_fault,
                                    [&](const TaskId& each) {
                                      return exit.output.find(each.to_string()) !=
                                             std::string::npos;
                                    }))
        << task.to_string() << "\n"
        << exit.output;
  }
  cluster.kill(victim, SIGKILL);
}

TEST(ProcessClusterTest, WhateverHappensWheneverNobodyHangs) {
  const auto first = static_cast<uint64_t>(from_environment("STRATA_SOAK_SEED", 1)) * 1'000'000;
  const int runs = from_environment("STRATA_SOAK_CLUSTER_FAULTS", 20);
  // They wait most of the time.
  std::atomic<int> next = 0;
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back("faults", [&] {
      for (int run = next++; run < runs; run = next++) {
        one_fault(first + static_cast<uint64_t>(run));
      }
    });
  }
}

}  // namespace
}  // namespace strata::test
