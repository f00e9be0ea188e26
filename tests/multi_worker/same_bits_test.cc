// The weights of a job do not depend on how its replicas are spread over processes.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "support/killed_program.h"
#include "support/process_cluster.h"

namespace strata {
namespace {

using test::ProcessCluster;
using namespace std::chrono_literals;

/// The lines of a report: digest and accuracy.
std::string report_of(const std::string& output) {
  std::istringstream lines(output);
  std::string report;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("sha256 ") || line.starts_with("accuracy ")) report += line + "\n";
  }
  return report;
}

std::string one_process(const std::string& mode) {
  const test::Outcome outcome = test::run_program(STRATA_MULTI_WORKER_TRAINER, {mode, "8"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return report_of(outcome.output);
}

/// One report of all workers.
std::string workers(const std::string& mode, const std::vector<int>& replicas) {
  ProcessCluster cluster(STRATA_MULTI_WORKER_TRAINER, {mode},
                         {{"worker", static_cast<int>(replicas.size())}});
  for (const cluster::TaskId& task : cluster.tasks()) {
    cluster.set_arguments(task, {std::to_string(replicas[static_cast<size_t>(task.index)])});
  }
  cluster.start();
  std::string report;
  for (const auto& [task, exit] : cluster.wait(120s)) {
    EXPECT_TRUE(exit.in_time && exit.code == 0)
        << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
        << "): " << exit.output;
    const std::string mine = report_of(exit.output);
    if (report.empty()) report = mine;
    EXPECT_EQ(mine, report) << task.to_string();
  }
  return report;
}

TEST(SameBitsTest, Fit) {
  const std::string expected = one_process("fit");
  ASSERT_NE(expected, "");
  EXPECT_EQ(workers("fit", {4, 4}), expected);
  EXPECT_EQ(workers("fit", {3, 3, 2}), expected);
}

TEST(SameBitsTest, CustomLoop) {
  const std::string expected = one_process("loop");
  ASSERT_NE(expected, "");
  EXPECT_EQ(workers("loop", {4, 4}), expected);
  EXPECT_EQ(workers("loop", {2, 2, 2, 2}), expected);
}

}  // namespace
}  // namespace strata
