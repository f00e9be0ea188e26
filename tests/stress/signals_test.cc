// SIGTERM, Ctrl-C and SIGKILL at random moments of jobs that the launcher runs: in the rendezvous,
// a step, a save. Exit codes are the documented ones, nothing is left running, and the job goes on
// from what it has saved to the bits of one that nobody disturbed.
//
// STRATA_SOAK_SIGNALS=300 tries as many moments; STRATA_SOAK_SEED=n repeats a run's choices.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "stress/job.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::Outcome;

const std::string kTrainer = STRATA_MULTI_WORKER_TRAINER;

/// Processes whose environment has this variable: what a job has started, however it is named.
std::set<int> processes_with(const std::string& variable) {
  std::set<int> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "environ");
    std::stringstream text;
    text << file.rdbuf();
    if (text.str().find(variable) != std::string::npos) found.insert(pid);
  }
  return found;
}

bool all_end(const std::string& variable) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!processes_with(variable).empty()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

Outcome launch(const std::string& folder, const std::string& marker, std::optional<int> after_ms,
               int signal) {
  return test::run_program(
      STRATA_COMMAND,
      {"launch", "-n", "2", "--grace", "20", "--env", marker, "--", kTrainer, "fit", "4", folder},
      after_ms, signal);
}

TEST(SignalsTest, AtAnyMomentAJobEndsAsDocumentedAndGoesOn) {
  const unsigned seed = test::chosen_seed(static_cast<unsigned>(::getpid()));
  std::mt19937 random(seed);
  for (int i = 0; i < test::tries("STRATA_SOAK_SIGNALS", 6); ++i) {
    constexpr int kSignals[] = {SIGTERM, SIGINT, SIGKILL};
    const int signal = kSignals[i % 3];
    const int after_ms = static_cast<int>(random() % 1500);
    const test::TempFolder folder;
    const std::string marker =
        "STRATA_TEST_MARK=" + std::to_string(::getpid()) + "-" + std::to_string(i);
    SCOPED_TRACE("STRATA_SOAK_SEED=" + std::to_string(seed) + ", signal " + std::to_string(signal) +
                 " after " + std::to_string(after_ms) + " ms");
    const Outcome outcome = launch(folder.path(), marker, after_ms, signal);
    EXPECT_TRUE(all_end(marker)) << "left running";
    if (signal == SIGKILL) {
      EXPECT_TRUE(outcome.signal == SIGKILL || outcome.exit_code == 0) << outcome.output;
    } else {
      // Saved and preempted; told before it could save; or it was done.
      const std::set<int> documented = {42, 128 + signal, 0};
      EXPECT_EQ(outcome.signal, 0) << outcome.output;
      EXPECT_TRUE(documented.contains(outcome.exit_code)) << outcome.exit_code << "\n"
                                                          << outcome.output;
    }
    const Outcome again = launch(folder.path(), marker, std::nullopt, 0);
    EXPECT_EQ(again.exit_code, 0) << again.output;
    EXPECT_EQ(again.sha256(), test::undisturbed("fit").substr(7, 64)) << again.output;
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace strata
