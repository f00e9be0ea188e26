// Kills a task of a job of mirrored workers with an evaluator at a random moment and starts it
// again: the job must end with the weights, bit for bit, and the evaluations of an undisturbed one.
//
// STRATA_SOAK_KILLS=100 kills as often; STRATA_SOAK_SEED=n repeats a run's choices.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/killed_program.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata::test {
namespace {

using namespace std::chrono_literals;
using cluster::TaskId;
using Clock = std::chrono::steady_clock;

constexpr auto kKillLimit = 240s;
const TaskId kChiefTask = {"chief", 0};
const TaskId kWorkerTask = {"worker", 0};
const TaskId kEvaluatorTask = {"evaluator", 0};

std::unique_ptr<ProcessCluster> start_watched(const std::string& folder) {
  auto cluster = std::make_unique<ProcessCluster>(
      STRATA_ESTIMATOR_WORKER, std::vector<std::string>{"watched", folder},
      std::map<std::string, int>{{"chief", 1}, {"worker", 1}, {"evaluator", 1}});
  cluster->start();
  return cluster;
}

/// What the chief reports at the end: the hash, and every evaluation.
std::string report_of_chief(const std::string& output) {
  const size_t at = output.find("sha256 ");
  return at == std::string::npos ? "none: " + output : output.substr(at);
}

/// Waits for all to end well. @return the chief's report.
std::string finish(ProcessCluster& cluster, const std::string& where) {
  for (const TaskId& task : {kChiefTask, kWorkerTask, kEvaluatorTask}) {
    const ProcessCluster::Exit exit = cluster.wait(task, kKillLimit);
    EXPECT_TRUE(exit.in_time && exit.code == 0)
        << where << ": " << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
        << "): " << exit.output;
  }
  return report_of_chief(cluster.output(kChiefTask));
}

TEST(EstimatorKillTest, AJobWithATaskThatWasKilledEndsWithTheSameBitsAndEvaluations) {
  const int wanted = from_environment("STRATA_SOAK_KILLS", 3);
  const int seed = from_environment("STRATA_SOAK_SEED", 1);
  std::mt19937 random(static_cast<unsigned>(seed));

  const auto began = Clock::now();
  const TempFolder undisturbed;
  const std::string expected = finish(*start_watched(undisturbed.path()), "undisturbed");
  const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
  ASSERT_NE(expected.find("evaluation 40: "), std::string::npos) << expected;

  int disturbed = 0;
  for (int kill = 0; kill < wanted; ++kill) {
    const TempFolder folder;
    const TaskId victim =
        std::vector<TaskId>{kChiefTask, kWorkerTask, kEvaluatorTask}.at(random() % 3);
    const auto moment = std::chrono::milliseconds(random() % (duration.count() + 1));
    const std::string where = "kill " + std::to_string(kill) + " of " + victim.to_string() +
                              " after " + std::to_string(moment.count()) + " ms, seed " +
                              std::to_string(seed);
    const auto cluster = start_watched(folder.path());
    std::this_thread::sleep_for(moment);  // the moment is the test's choice
    cluster->kill(victim);
    if (cluster->wait(victim, kKillLimit).signal == SIGKILL) {
      ++disturbed;
      if (victim == kEvaluatorTask) {
        cluster->start(victim);
      } else {
        // The other ends with an error, or, if it had trained to the end, well.
        const TaskId other = victim == kChiefTask ? kWorkerTask : kChiefTask;
        EXPECT_TRUE(cluster->wait(other, kKillLimit).in_time) << where << cluster->output(other);
        cluster->start(victim);
        cluster->start(other);
      }
    }
    EXPECT_EQ(finish(*cluster, where), expected) << where;
    if (HasFailure()) return;
  }
  EXPECT_GT(disturbed, 0);
}

}  // namespace
}  // namespace strata::test
