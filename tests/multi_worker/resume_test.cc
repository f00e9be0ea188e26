// A worker is killed at a random step: all others end soon with an error that names it. The job,
// started again with its replicas spread in another way, ends with the bits of one that nobody
// disturbed, and the same files. SIGTERM at one worker: all save after the same step and exit with
// 42.
//
// STRATA_SOAK_KILLS=100 kills as often; STRATA_SOAK_SEED=n repeats a run's choices.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "multi_worker/reports.h"
#include "support/killed_program.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::ProcessCluster;
using test::report_of;
using namespace std::chrono_literals;
using Spread = std::vector<int>;  // replicas of each worker, eight together

const std::vector<Spread>& spreads() {
  static const std::vector<Spread> all = {{4, 4}, {3, 3, 2}, {2, 2, 2, 2}, {7, 1}};
  return all;
}

constexpr int kSteps = 51;

std::unique_ptr<ProcessCluster> start(const std::string& mode, const Spread& replicas,
                                      const std::string& folder) {
  auto cluster = std::make_unique<ProcessCluster>(
      STRATA_MULTI_WORKER_TRAINER, std::vector<std::string>{mode},
      std::map<std::string, int>{{"worker", static_cast<int>(replicas.size())}});
  for (const cluster::TaskId& task : cluster->tasks()) {
    cluster->set_arguments(task,
                           {std::to_string(replicas[static_cast<size_t>(task.index)]), folder});
    // Against a run whose steps are as they are written.
    cluster->set_environment(task, "STRATA_TEST_GRAPHS", "1");
  }
  cluster->start();
  return cluster;
}

long starts_at(const std::string& output) {
  constexpr std::string_view kText = "starts at step ";
  const size_t at = output.find(kText);
  return at == std::string::npos ? -1 : std::atol(output.c_str() + at + kText.size());
}

/// Of one process that nobody disturbs.
const std::string& undisturbed(const std::string& mode) {
  static std::map<std::string, std::string> known;
  std::string& report = known[mode];
  if (report.empty()) {
    const test::TempFolder folder;
    const test::Outcome outcome =
        test::run_program(STRATA_MULTI_WORKER_TRAINER, {mode, "8", folder.path()});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    report = report_of(outcome.output);
  }
  return report;
}

/// Lets the job go on to its end. @return the step that it went on from.
long finish(const std::string& mode, const Spread& replicas, const std::string& folder) {
  const auto cluster = start(mode, replicas, folder);
  long first = -1;
  for (const auto& [task, exit] : cluster->wait(180s)) {
    EXPECT_TRUE(exit.in_time && exit.code == 0)
        << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
        << "): " << exit.output;
    EXPECT_EQ(report_of(exit.output), undisturbed(mode)) << task.to_string();
    EXPECT_TRUE(first == -1 || starts_at(exit.output) == first) << exit.output;
    first = starts_at(exit.output);
  }
  return first;
}

TEST(ResumeTest, AKilledWorkerIsNamedAndTheJobEndsWithTheSameBits) {
  const int wanted = test::from_environment("STRATA_SOAK_KILLS", 5);
  const int seed = test::from_environment("STRATA_SOAK_SEED", 1);
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto draw = [&](size_t below) { return static_cast<size_t>(random() % below); };
  long resumed_from = 0;
  for (int kill = 0; kill < wanted; ++kill) {
    const std::string mode = kill % 2 == 0 ? "fit" : "loop";
    const test::TempFolder folder;
    const Spread& replicas = spreads()[draw(spreads().size())];
    const auto cluster = start(mode, replicas, folder.path());
    const cluster::TaskId victim{"worker", static_cast<int>(draw(replicas.size()))};
    const std::string step = "step " + std::to_string(1 + draw(kSteps - 1)) + "\n";
    const std::string where = mode + ", " + std::to_string(replicas.size()) + " workers, " +
                              victim.to_string() + " at " + step + ", seed " + std::to_string(seed);
    ASSERT_TRUE(cluster->wait_for_output(victim, "\n" + step, 120s))
        << where << cluster->output(victim);
    cluster->kill(victim);
    for (const auto& [task, exit] : cluster->wait(20s)) {
      if (task == victim) continue;
      EXPECT_TRUE(exit.in_time && exit.code == 1)
          << where << ": " << task.to_string() << " (exit " << exit.code << ", signal "
          << exit.signal << "): " << exit.output;
      EXPECT_NE(exit.output.find(victim.to_string()), std::string::npos)
          << where << ": " << task.to_string() << ": " << exit.output;
    }
    resumed_from += finish(mode, spreads()[draw(spreads().size())], folder.path());
    if (HasFailure()) FAIL() << where;
  }
  EXPECT_GT(resumed_from, 0);  // or nothing was ever restored
}

void terminated(const std::string& mode, const cluster::TaskId& told) {
  const test::TempFolder folder;
  {
    const auto cluster = start(mode, {4, 4}, folder.path());
    ASSERT_TRUE(cluster->wait_for_output(told, "\nstep 7\n", 120s)) << cluster->output(told);
    cluster->kill(told, SIGTERM);
    for (const auto& [task, exit] : cluster->wait(60s)) {
      EXPECT_TRUE(exit.in_time && exit.code == 42)
          << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
          << "): " << exit.output;
    }
  }
  EXPECT_GE(finish(mode, {3, 3, 2}, folder.path()), 7);
}

TEST(ResumeTest, TerminationOfOneWorkerSavesAllInFit) { terminated("fit", {"worker", 1}); }
TEST(ResumeTest, TerminationOfTheChiefSavesAllInACustomLoop) { terminated("loop", {"worker", 0}); }

}  // namespace
}  // namespace strata
