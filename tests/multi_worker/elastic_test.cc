// A worker is killed in the middle of an epoch; the others take over its replicas, and the job ends
// with the bits of one that nobody disturbed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "multi_worker/reports.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::ProcessCluster;
using test::report_of;
using namespace std::chrono_literals;

class ElasticTest : public testing::Test {
 protected:
  void start(const std::string& mode, const std::vector<int>& replicas,
             const std::string& await = "", bool shard = false) {
    expected_ = test::one_process(mode);
    cluster_.emplace(STRATA_MULTI_WORKER_TRAINER, std::vector<std::string>{mode},
                     std::map<std::string, int>{{"worker", static_cast<int>(replicas.size())}});
    for (const cluster::TaskId& task : cluster_->tasks()) {
      cluster_->set_environment(task, "STRATA_TEST_AWAIT", await);
      // What is recorded knows the replicas: it is made anew when their number has changed.
      cluster_->set_environment(task, "STRATA_TEST_GRAPHS", "1");
      if (shard) {
        cluster_->set_environment(task, "STRATA_TEST_IMPLEMENTATION", "WIRE");
        cluster_->set_environment(task, "STRATA_TEST_SHARD", "1");
      }
      cluster_->set_arguments(task, {std::to_string(replicas[static_cast<size_t>(task.index)]),
                                     backup_.path(), "elastic"});
    }
    cluster_->start();
  }

  /// Killed at step 20, started again, and taken in behind step 40.
  void taken_in_again(const std::string& mode, const std::vector<int>& replicas, int victim) {
    start(mode, replicas, "40");
    const cluster::TaskId task = {"worker", victim};
    ASSERT_TRUE(cluster_->wait_for_output(task, "step 20\n"));
    cluster_->kill(task);
    EXPECT_EQ(cluster_->wait(task).signal, 9);
    cluster_->start(task);
    for (const cluster::TaskId& each : cluster_->tasks()) expect_right(each);
  }

  void expect_right(const cluster::TaskId& task) {
    const ProcessCluster::Exit exit = cluster_->wait(task, 120s);
    EXPECT_TRUE(exit.in_time && exit.code == 0)
        << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
        << "): " << exit.output;
    EXPECT_TRUE(report_of(exit.output).starts_with(expected_)) << task.to_string() << exit.output;
  }

  std::string expected_;
  const test::TempFolder backup_;
  std::optional<ProcessCluster> cluster_;
};

TEST_F(ElasticTest, TheOthersTakeOver) {
  start("fit", {4, 4});
  ASSERT_TRUE(cluster_->wait_for_output({"worker", 1}, "step 20\n"));
  cluster_->kill({"worker", 1});
  EXPECT_EQ(cluster_->wait({"worker", 1}).signal, 9);
  expect_right({"worker", 0});
}

TEST_F(ElasticTest, TheOthersTakeOverInALoopOfOnesOwn) {
  start("loop", {3, 3, 2});
  ASSERT_TRUE(cluster_->wait_for_output({"worker", 1}, "step 20\n"));
  cluster_->kill({"worker", 1});
  EXPECT_EQ(cluster_->wait({"worker", 1}).signal, 9);
  for (const int rest : {0, 2}) expect_right({"worker", rest});
}

TEST_F(ElasticTest, ItsPartOfTheOptimizersStateIsShared) {
  start("fit", {3, 3, 2}, "", /*shard=*/true);
  ASSERT_TRUE(cluster_->wait_for_output({"worker", 1}, "step 20\n"));
  cluster_->kill({"worker", 1});
  EXPECT_EQ(cluster_->wait({"worker", 1}).signal, 9);
  for (const int rest : {0, 2}) expect_right({"worker", rest});
}

// With all that its callbacks write.
TEST_F(ElasticTest, WhoIsStartedAgainIsTakenInByFit) { taken_in_again("fit", {4, 4}, 1); }
TEST_F(ElasticTest, WhoIsStartedAgainIsTakenInByALoop) { taken_in_again("loop", {3, 3, 2}, 1); }
TEST_F(ElasticTest, TheChiefIsWaitedFor) { taken_in_again("fit", {3, 3, 2}, 0); }

TEST_F(ElasticTest, OneAfterTheOther) {
  start("fit", {3, 3, 2});
  ASSERT_TRUE(cluster_->wait_for_output({"worker", 2}, "step 5\n"));
  cluster_->kill({"worker", 2});
  ASSERT_TRUE(cluster_->wait_for_output({"worker", 1}, "step 30\n"));
  cluster_->kill({"worker", 1});
  expect_right({"worker", 0});
}

}  // namespace
}  // namespace strata
