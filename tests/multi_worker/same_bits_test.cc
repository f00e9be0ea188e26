// The weights of a job do not depend on how its replicas are spread over processes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "multi_worker/reports.h"
#include "support/process_cluster.h"
#include "wire/ucx/ucx_transport.h"

namespace strata {
namespace {

using test::one_process;
using test::ProcessCluster;
using test::report_of;
using namespace std::chrono_literals;

/// One report of all workers.
std::string workers(const std::string& mode, const std::vector<int>& replicas,
                    const std::string& implementation = "AUTO", const std::string& wire = "socket",
                    bool shard = false, bool graphs = false) {
  ProcessCluster cluster(STRATA_MULTI_WORKER_TRAINER, {mode},
                         {{"worker", static_cast<int>(replicas.size())}});
  for (const cluster::TaskId& task : cluster.tasks()) {
    cluster.set_arguments(task, {std::to_string(replicas[static_cast<size_t>(task.index)])});
    cluster.set_environment(task, "STRATA_TEST_IMPLEMENTATION", implementation);
    cluster.set_environment(task, "STRATA_WIRE", wire);
    if (shard) cluster.set_environment(task, "STRATA_TEST_SHARD", "1");
    if (graphs) cluster.set_environment(task, "STRATA_TEST_GRAPHS", "1");
    cluster.set_environment(task, "STRATA_LOG_LEVEL", "info");
  }
  cluster.start();
  std::string report;
  for (const auto& [task, exit] : cluster.wait(120s)) {
    EXPECT_TRUE(exit.in_time && exit.code == 0)
        << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
        << "): " << exit.output;
    EXPECT_NE(exit.output.find(", 8 replicas, wire " + wire + ";"), std::string::npos)
        << exit.output;
    EXPECT_EQ(exit.output.find("\ngraphs ") != std::string::npos, graphs) << exit.output;
    EXPECT_EQ(exit.output.find("\ngraphs 0"), std::string::npos) << exit.output;
    EXPECT_EQ(exit.output.find("is not run as a graph"), std::string::npos) << exit.output;
    const std::string local = report_of(exit.output);
    if (report.empty()) report = local;
    EXPECT_EQ(local, report) << task.to_string();
  }
  return report;
}

TEST(SameBitsTest, Fit) {
  const std::string expected = one_process("fit");
  ASSERT_NE(expected, "");
  EXPECT_EQ(workers("fit", {4, 4}), expected);
  EXPECT_EQ(workers("fit", {3, 3, 2}), expected);
  EXPECT_EQ(workers("fit", {3, 3, 2}, "WIRE"), expected);
}

/// What one process computes as it is written, jobs of two and three do as graphs.
TEST(SameBitsTest, FitByGraphs) {
  const std::string expected = one_process("fit");
  ASSERT_NE(expected, "");
  EXPECT_EQ(workers("fit", {4, 4}, "AUTO", "socket", false, true), expected);
  EXPECT_EQ(workers("fit", {3, 3, 2}, "WIRE", "socket", true, true), expected);
}

TEST(SameBitsTest, CustomLoop) {
  const std::string expected = one_process("loop");
  ASSERT_NE(expected, "");
  EXPECT_EQ(workers("loop", {4, 4}), expected);
  EXPECT_EQ(workers("loop", {4, 4}, "WIRE"), expected);
  EXPECT_EQ(workers("loop", {2, 2, 2, 2}), expected);
}

TEST(SameBitsTest, WithAPartOfTheOptimizersStateEach) {
  EXPECT_EQ(workers("fit", {3, 3, 2}, "WIRE", "socket", true), one_process("fit"));
  EXPECT_EQ(workers("loop", {4, 4}, "WIRE", "socket", true), one_process("loop"));
}

TEST(SameBitsTest, OverUcx) {
  if (wire::has_ucx_transport()) {
    EXPECT_EQ(workers("fit", {4, 4}, "WIRE", "ucx"), one_process("fit"));
    EXPECT_EQ(workers("loop", {3, 3, 2}, "WIRE", "ucx"), one_process("loop"));
    return;
  }
  // Then the user is told so.
  ProcessCluster cluster(STRATA_MULTI_WORKER_TRAINER, {"loop", "4"}, {{"worker", 2}});
  for (const cluster::TaskId& task : cluster.tasks()) {
    cluster.set_environment(task, "STRATA_WIRE", "ucx");
  }
  cluster.start();
  for (const auto& [task, exit] : cluster.wait(60s)) {
    EXPECT_TRUE(exit.in_time && exit.code == 1) << exit.output;
    EXPECT_NE(exit.output.find("this build has no UCX"), std::string::npos) << exit.output;
  }
}

}  // namespace
}  // namespace strata
