// The mpi back end between processes that mpirun starts.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <regex>
#include <string>

#include "support/mpirun.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;
using test::occurrences;
using test::Outcome;
using test::run_with_mpi;

/// Each process is a rank, and runs all tests.
Outcome run_contract(int ranks, const std::string& filter,
                     std::map<std::string, std::string> environment = {}) {
  const test::TempFolder folder;
  environment["STRATA_TEST_FOLDER"] = folder.path();
  return run_with_mpi({"-n", std::to_string(ranks), STRATA_COLLECTIVE_MPI_CONTRACT,
                       "--gtest_brief=1", "--gtest_color=no", "--gtest_filter=" + filter},
                      environment);
}

TEST(MpiTest, TheContractOfCommunicators) {
  const Outcome outcome = run_contract(8, "*");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(occurrences(outcome.output, "[  PASSED  ]"), 8) << outcome.output;
}

TEST(MpiTest, AProgramMayInitialiseMpiItself) {
  const std::string filter = "*NotContiguousAreCopied/mpi";
  const Outcome outcome = run_contract(2, filter, {{"STRATA_TEST_MPI", "SERIALIZED"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(occurrences(outcome.output, "[  PASSED  ] 1 test."), 2) << outcome.output;
  const std::string one =
      "its MPI is initialised for one thread alone; ask MPI_Init_thread for "
      "MPI_THREAD_SERIALIZED or more";
  for (const auto& [how, why] :
       {std::pair("FUNNELED", one), {"FINALIZED", "it has called MPI_Finalize"}}) {
    const Outcome refused = run_contract(2, filter, {{"STRATA_TEST_MPI", how}});
    EXPECT_EQ(refused.exit_code, 1) << refused.output;
    EXPECT_EQ(occurrences(refused.output, "[collective] MPI: rank 0 (/job:worker/task:0): " + why),
              2)
        << refused.output;
  }
}

TEST(MpiTest, AStartThatOneDoesNotTakePartInEnds) {
  const Outcome outcome = run_contract(3, "*", {{"STRATA_TEST_MPI", "PARTLY"}});
  EXPECT_EQ(occurrences(outcome.output,
                        "[collective] MPI: rank 0 (/job:worker/task:0): MPI has not come back in "
                        "time; all processes of the MPI job must take part"),
            2)
      << outcome.output;
}

/// The error of a rank that has lost worker 1: the membership's, or that of its connection, which
/// may break first.
void expect_named(const Outcome& outcome, int rank) {
  const std::regex line(
      "error UNAVAILABLE \\[collective\\] all_reduce\\(MAX\\) of 100000 Float, "
      "plan [0-9a-f]+ \\(id 0, gradients of dense\\) on rank " +
      std::to_string(rank) +
      " of [0-9]: .*/job:worker/task:1 at .*"
      "(is lost|the peer has disconnected)");
  EXPECT_TRUE(std::regex_search(outcome.output, line)) << rank << "\n" << outcome.output;
}

// By default mpirun kills the others, too, often before they can say anything.
TEST(MpiTest, AKilledProcessIsNamedByAll) {
  const Outcome outcome = run_with_mpi({"--enable-recovery", "-n", "3", STRATA_COLLECTIVE_TASK,
                                        "hold", "mpi", "1", std::to_string(SIGKILL)});
  for (const int rank : {0, 2}) expect_named(outcome, rank);
}

TEST(MpiTest, AStoppedProcessIsNamed) {
  const Outcome outcome =
      run_with_mpi({"-n", "2", STRATA_COLLECTIVE_TASK, "hold", "mpi", "1", std::to_string(SIGSTOP)},
                   {{"STRATA_LIVENESS_MS", "1500"}});
  expect_named(outcome, 0);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
}

/// Two tasks that mpirun has not started, or not together.
void expect_refused(const std::string& why, const std::map<std::string, std::string>& environment) {
  test::ProcessCluster cluster(STRATA_COLLECTIVE_TASK, {"sums", "mpi", "8"}, {{"worker", 2}});
  for (const auto& task : cluster.tasks()) {
    for (const auto& [name, value] : environment) cluster.set_environment(task, name, value);
  }
  cluster.start();
  for (const auto& [task, exit] : cluster.wait(60s)) {
    EXPECT_TRUE(exit.in_time && exit.code == 1) << exit.output;
    EXPECT_NE(exit.output.find("error FAILED_PRECONDITION [collective] MPI: " + why +
                               "; start all workers with one `mpirun -n 2 ...` (mpiexec, srun "
                               "--mpi=pmix), or use implementation AUTO"),
              std::string::npos)
        << exit.output;
  }
}

TEST(MpiTest, WhoWasNotStartedByMpirunIsTold) {
  const std::string first = "rank 0 (/job:worker/task:0): it ";
  expect_refused(first + "was not started by mpirun, mpiexec or srun --mpi", {});
  expect_refused(first + "is process 0 of 1 in its MPI job; expected all 2 workers in one job",
                 {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  expect_refused(
      "rank 1 (/job:worker/task:1): it is process 3 of 4 in its MPI job, and so is "
      "another; expected all 2 workers in one job",
      {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
}

}  // namespace
}  // namespace strata::collective
