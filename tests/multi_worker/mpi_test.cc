// The weights of a job do not depend on MPI either.
#include <gtest/gtest.h>

#include <string>

#include "multi_worker/reports.h"
#include "support/mpirun.h"

namespace strata {
namespace {

using test::occurrences;
using test::one_process;
using test::Outcome;
using test::report_of;
using test::run_with_mpi;

const std::string kTrainer = STRATA_MULTI_WORKER_TRAINER;

void expect_reports(const Outcome& outcome, const std::string& report, int workers) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(occurrences(outcome.output, report.substr(0, report.find('\n'))), workers)
      << outcome.output;
  EXPECT_EQ(occurrences(outcome.output, "over MPI"), workers) << outcome.output;
}

TEST(MpiJobTest, EndsWithTheSameBits) {
  const std::map<std::string, std::string> environment = {{"STRATA_TEST_IMPLEMENTATION", "MPI"},
                                                          {"STRATA_LOG_LEVEL", "info"}};
  const std::string loop = one_process("loop");
  ASSERT_NE(loop, "");
  expect_reports(run_with_mpi({"-n", "2", kTrainer, "loop", "4"}, environment), loop, 2);
  const std::string fit = one_process("fit");
  ASSERT_NE(fit, "");
  expect_reports(
      run_with_mpi({"-n", "2", kTrainer, "fit", "3", ":", "-n", "1", kTrainer, "fit", "2"},
                   environment),
      fit, 3);
}

TEST(MpiJobTest, IsNotElastic) {
  const Outcome outcome = run_with_mpi({"-n", "1", kTrainer, "fit", "4", "folder", "elastic"},
                                       {{"STRATA_TEST_IMPLEMENTATION", "MPI"}});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("[multi_worker_mirrored_strategy] got elastic with implementation "
                                "MPI, whose processes cannot be replaced"),
            std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace strata
