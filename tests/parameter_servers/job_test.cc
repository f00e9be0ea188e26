// Jobs with parameter servers, as processes: what a lost task means to the others.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>

#include "parameter_servers/job_checks.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::expect_good;
using test::ProcessCluster;
using test::sha_of;
using namespace std::chrono_literals;

std::unique_ptr<ProcessCluster> start(const std::string& mode, const std::string& folder, int steps,
                                      int workers, int servers, bool backup = false) {
  std::vector<std::string> arguments = {mode, folder, std::to_string(steps)};
  if (backup) arguments.push_back("backup");
  auto cluster = std::make_unique<ProcessCluster>(
      STRATA_PS_TRAINER, std::move(arguments),
      std::map<std::string, int>{{"worker", workers}, {"ps", servers}});
  cluster->start();
  return cluster;
}

TEST(ParameterServerJobTest, AllTasksEndWellAndAgree) {
  const test::TempFolder folder;
  const auto cluster = start("together", folder.path(), 30, 2, 2);
  std::string sha;
  for (const auto& [task, exit] : cluster->wait()) {
    expect_good(exit, task);
    if (task.job != "worker") continue;
    if (sha.empty()) sha = sha_of(exit.output);
    EXPECT_EQ(sha_of(exit.output), sha);
  }
  EXPECT_EQ(sha.size(), 71);
}

TEST(ParameterServerJobTest, AKilledWorkerStopsNobodyAndMayComeBack) {
  const test::TempFolder folder;
  const auto cluster = start("apart", folder.path(), 3000, 3, 2);
  const cluster::TaskId lost = {"worker", 2};
  ASSERT_TRUE(cluster->wait_for_output(lost, "step "));
  cluster->kill(lost);
  EXPECT_EQ(cluster->wait(lost).signal, SIGKILL);
  ASSERT_TRUE(cluster->wait_for_output({"ps", 0}, "/job:worker/task:2 is lost"));
  cluster->start(lost);
  for (const auto& [task, exit] : cluster->wait()) expect_good(exit, task);
}

TEST(ParameterServerJobTest, AStoppedWorkerHoldsUpStepsForTheLivenessIntervalOnly) {
  const test::TempFolder folder;
  const auto cluster = start("together", folder.path(), 60, 2, 1);
  ASSERT_TRUE(cluster->wait_for_output({"worker", 1}, "step 10\n"));
  cluster->kill({"worker", 1}, SIGSTOP);
  expect_good(cluster->wait({"worker", 0}), {"worker", 0});
  expect_good(cluster->wait({"ps", 0}), {"ps", 0});
  cluster->kill({"worker", 1});
}

TEST(ParameterServerJobTest, ALostServerEndsTheJobWhichGoesOnFromItsCheckpointWithTheSameBits) {
  const test::TempFolder undisturbed;
  const auto whole = start("together", undisturbed.path(), 60, 2, 2);
  const std::string expected = sha_of(whole->wait({"worker", 0}).output);

  const test::TempFolder folder;
  {
    const auto cluster = start("together", folder.path(), 60, 2, 2);
    ASSERT_TRUE(cluster->wait_for_output({"worker", 0}, "step 23\n"));
    cluster->kill({"ps", 1});
    for (int worker = 0; worker < 2; ++worker) {
      const ProcessCluster::Exit exit = cluster->wait({"worker", worker});
      EXPECT_EQ(exit.code, 1) << exit.output;
      EXPECT_NE(exit.output.find("/job:ps/task:1"), std::string::npos) << exit.output;
    }
  }
  const auto again = start("together", folder.path(), 60, 2, 3);
  for (const auto& [task, exit] : again->wait()) {
    expect_good(exit, task);
    if (task.job != "worker") continue;
    EXPECT_EQ(exit.output.find("starts at step 0\n"), std::string::npos) << exit.output;
    EXPECT_EQ(sha_of(exit.output), expected);
  }
}

// With the bits of a job that lost nobody: each push counted once.
TEST(ParameterServerJobTest, ALostServerCostsNoStepWhereItHasABackup) {
  const test::TempFolder undisturbed;
  const auto whole = start("together", undisturbed.path(), 60, 2, 2);
  const std::string expected = sha_of(whole->wait({"worker", 0}).output);

  for (const int signal : {SIGKILL, SIGSTOP}) {
    const test::TempFolder folder;
    const auto cluster = start("together", folder.path(), 60, 2, 2, /*backup=*/true);
    ASSERT_TRUE(cluster->wait_for_output({"worker", 0}, "step 23\n"));
    cluster->kill({"ps", 1}, signal);
    for (int worker = 0; worker < 2; ++worker) {
      const ProcessCluster::Exit exit = cluster->wait({"worker", worker});
      expect_good(exit, {"worker", worker});
      EXPECT_EQ(sha_of(exit.output), expected);
      EXPECT_NE(exit.output.find("its backup /job:ps/task:0 takes its place"), std::string::npos)
          << exit.output;
    }
    expect_good(cluster->wait({"ps", 0}), {"ps", 0});
    if (signal == SIGKILL) continue;
    // It finds that it has been replaced (or, since all is over, nobody), and ends.
    cluster->kill({"ps", 1}, SIGCONT);
    cluster->kill({"ps", 1});
  }
}

}  // namespace
}  // namespace strata
