// train_and_evaluate with parameter servers, as processes, some of which are killed. Each push adds
// 1 to the variable w of the model: w is the number of pushes that were applied.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata::test {
namespace {

using namespace std::chrono_literals;
using cluster::TaskId;

constexpr auto kLimit = 240s;

std::unique_ptr<ProcessCluster> start(const std::string& folder, int64_t max_steps) {
  auto cluster = std::make_unique<ProcessCluster>(
      STRATA_ESTIMATOR_WORKER,
      std::vector<std::string>{"servers", folder, std::to_string(max_steps)},
      std::map<std::string, int>{{"chief", 1}, {"worker", 2}, {"ps", 1}, {"evaluator", 1}});
  cluster->start();
  return cluster;
}

void stop(const std::string& folder) { std::ofstream(folder + "/stop") << "stop\n"; }

/// The two numbers behind `text` in the last line that begins with it: "N: w", say.
struct TwoNumbers {
  long long first = -1;
  long long second = -1;
};
TwoNumbers numbers_behind(const std::string& output, const std::string& text, const char* format) {
  TwoNumbers found;
  const size_t at = output.rfind(text);
  EXPECT_NE(at, std::string::npos) << text << " is not in " << output;
  if (at != std::string::npos) {
    std::sscanf(output.c_str() + at + text.size(), format, &found.first, &found.second);
  }
  return found;
}
TwoNumbers trained(const std::string& output) {
  return numbers_behind(output, "trained to ", "%lld: %lld");
}
TwoNumbers made(const std::string& output) {
  return numbers_behind(output, "made ", "%lld steps, the last %lld");
}

void expect_good(const ProcessCluster::Exit& exit, const TaskId& task) {
  EXPECT_TRUE(exit.in_time && exit.code == 0) << task.to_string() << " (exit " << exit.code
                                              << ", signal " << exit.signal << "): " << exit.output;
}

TEST(EstimatorServersTest, AllTasksTrainToMaxStepsAndEveryStepIsOnePush) {
  const TempFolder folder;
  const auto cluster = start(folder.path(), 200);
  const auto exits = cluster->wait(kLimit);
  ASSERT_EQ(exits.size(), 5);
  long long steps = 0;
  long long last = 0;
  for (const auto& [task, exit] : exits) {
    expect_good(exit, task);
    if (task.job == "ps" || task.job == "evaluator") continue;
    const TwoNumbers of_worker = made(exit.output);
    steps += of_worker.first;
    last = std::max(last, of_worker.second);
  }
  EXPECT_EQ(steps, last);
  EXPECT_GE(last, 200);

  const TwoNumbers saved = trained(exits.at({"chief", 0}).output);
  EXPECT_GE(saved.first, 200);
  EXPECT_EQ(saved.second, saved.first);
  const TwoNumbers evaluated =
      numbers_behind(exits.at({"evaluator", 0}).output, "evaluated ", "%lld: %lld");
  EXPECT_EQ(evaluated.first, saved.first);
  EXPECT_EQ(evaluated.second, evaluated.first);
}

TEST(EstimatorServersTest, AKilledWorkerComesBackAndTheOthersDoNotNotice) {
  const TempFolder folder;
  const auto cluster = start(folder.path(), 0);
  const TaskId lost = {"worker", 1};
  ASSERT_TRUE(cluster->wait_for_output(lost, "step ", kLimit)) << cluster->output(lost);
  cluster->kill(lost);
  EXPECT_EQ(cluster->wait(lost).signal, 9);
  cluster->start(lost);
  ASSERT_TRUE(cluster->wait_for_output(lost, "step ", kLimit)) << cluster->output(lost);
  stop(folder.path());
  const auto exits = cluster->wait(kLimit);
  for (const auto& [task, exit] : exits) expect_good(exit, task);
  const TwoNumbers saved = trained(exits.at({"chief", 0}).output);
  EXPECT_EQ(saved.second, saved.first);
}

// The others train on meanwhile, so what the servers have is newer than the checkpoint.
TEST(EstimatorServersTest, ARestartedChiefTakesTheServersValues) {
  const TempFolder folder;
  const auto cluster = start(folder.path(), 0);
  const TaskId chief = {"chief", 0};
  ASSERT_TRUE(cluster->wait_for_output(chief, "step ", kLimit)) << cluster->output(chief);
  ASSERT_TRUE(cluster->wait_for_output({"worker", 0}, "step ", kLimit));
  cluster->kill(chief);
  const std::string before = cluster->wait(chief).output;
  const TwoNumbers reached = numbers_behind(before, "step ", "%lld");
  cluster->start(chief);
  ASSERT_TRUE(cluster->wait_for_output(chief, "step ", kLimit)) << cluster->output(chief);
  stop(folder.path());
  const auto exits = cluster->wait(kLimit);
  for (const auto& [task, exit] : exits) expect_good(exit, task);
  const std::string& output = exits.at(chief).output;
  const TwoNumbers saved = trained(output);
  EXPECT_EQ(saved.second, saved.first);
  EXPECT_GT(saved.first, reached.first);
}

TEST(EstimatorServersTest, AJobWhoseServerWasLostGoesOnFromItsCheckpoint) {
  const TempFolder folder;
  {
    const auto cluster = start(folder.path(), 0);
    const std::vector<TaskId> trainers = {{"chief", 0}, {"worker", 0}, {"worker", 1}};
    // Who has not met the server yet waits for it to come.
    for (const TaskId& task : trainers) {
      ASSERT_TRUE(cluster->wait_for_output(task, "step ", kLimit)) << cluster->output(task);
    }
    cluster->kill({"ps", 0});
    for (const TaskId& task : trainers) {
      const ProcessCluster::Exit exit = cluster->wait(task, kLimit);
      EXPECT_EQ(exit.code, 1) << task.to_string() << exit.output;
      EXPECT_NE(exit.output.find("/job:ps/task:0"), std::string::npos) << exit.output;
    }
  }
  const auto cluster = start(folder.path(), 0);
  ASSERT_TRUE(cluster->wait_for_output({"chief", 0}, "step ", kLimit));
  stop(folder.path());
  const auto exits = cluster->wait(kLimit);
  for (const auto& [task, exit] : exits) expect_good(exit, task);
  const TwoNumbers saved = trained(exits.at({"chief", 0}).output);
  EXPECT_EQ(saved.second, saved.first);
}

}  // namespace
}  // namespace strata::test
