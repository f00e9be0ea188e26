// SIGTERM, Ctrl-C and SIGKILL at random moments of jobs of threads, of processes, with parameter
// servers, at the launcher or at one task: while they start and meet, step, push, save. Exit codes
// are the documented ones, nothing is left running, and the job goes on from what it has saved to
// its end: to the bits of one that was not disturbed, unless parameter servers have meanwhile
// counted the workers that were left (docs/parameter_servers.md).
//
// STRATA_SOAK_SIGNALS=300 tries as many moments; STRATA_SOAK_SEED=n repeats a run's choices.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "stress/job.h"
#include "support/soak_setting.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::Outcome;

const std::string kTrainer = STRATA_MULTI_WORKER_TRAINER;
const std::string kPsTrainer = STRATA_PS_TRAINER;
constexpr int kPreempted = 42;  // after saving; docs/checkpoints.md

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

/// A job, and what it may end with when a signal comes.
struct Job {
  std::string name;
  std::string sha256;  // of its undisturbed run; empty: not of one that goes on
  std::function<std::vector<std::string>(const std::string& folder)> command;
  bool one_task = false;        // of the tasks that the launcher has started gets the signal
  bool saves_and_ends = false;  // with Preempted's exit code, at SIGTERM

  Outcome run(const std::string& folder, const std::string& marker,
              const std::optional<test::Disturbance>& disturbance = std::nullopt) const {
    std::vector<std::string> words = {marker};
    for (std::string& word : command(folder)) words.push_back(std::move(word));
    return test::run_program("/usr/bin/env", words, disturbance);
  }

  /// Ends of the launcher as its --help has them, or of a program without one.
  bool documented(const Outcome& outcome, int signal) const {
    const bool launched = name != "threads";
    if (outcome.signal != 0) {  // it ended in the signal itself
      const bool before_main = outcome.output.empty();
      return outcome.signal == signal && !one_task &&
             (!launched || signal == SIGKILL || before_main);
    }
    std::set<int> codes = {0};  // it was done
    if (launched && (signal != SIGKILL || one_task)) codes.insert(128 + signal);
    if (saves_and_ends && signal == SIGTERM) codes.insert(kPreempted);
    return codes.contains(outcome.exit_code);
  }
};

std::string sha_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return outcome.sha256();
}

std::vector<Job> jobs() {
  const std::string fit = test::undisturbed("fit").substr(7, 64);
  const auto launched_fit = [](const std::string& folder) -> std::vector<std::string> {
    return {STRATA_COMMAND, "launch", "-n",  "2", "--grace", "20",
            "--",           kTrainer, "fit", "4", folder};
  };
  const auto pushing = [](const std::string& folder) -> std::vector<std::string> {
    return {STRATA_COMMAND, "launch", "-n",       "2",        "--ps", "1", "--grace",
            "20",           "--",     kPsTrainer, "together", folder, "60"};
  };
  return {{.name = "threads",
           .sha256 = fit,
           .command = [](const std::string& folder) -> std::vector<std::string> {
             return {kTrainer, "fit", "8", folder};
           },
           .saves_and_ends = true},
          {.name = "launcher", .sha256 = fit, .command = launched_fit, .saves_and_ends = true},
          {.name = "one worker",
           .sha256 = fit,
           .command = launched_fit,
           .one_task = true,
           .saves_and_ends = true},
          {.name = "launcher of pushes", .sha256 = "", .command = pushing},
          {.name = "one task of pushes", .sha256 = "", .command = pushing, .one_task = true}};
}

/// Sends `signal` to the job's first process, or to one of its tasks, chosen by `choice`.
void strike(const Job& job, const std::string& marker, pid_t first, int signal, unsigned choice) {
  if (!job.one_task) {
    ::kill(first, signal);
    return;
  }
  const std::set<int> members = processes_with("TF_CONFIG=");
  std::set<int> tasks = processes_with(marker);
  // Not the launcher, nor the guard that ends its tasks should it be killed.
  std::erase_if(tasks, [&](int process) { return !members.contains(process); });
  if (tasks.empty()) return;
  ::kill(*std::next(tasks.begin(), choice % tasks.size()), signal);
}

TEST(SignalsTest, AtAnyMomentAJobEndsAsDocumentedAndGoesOn) {
  const auto seed = static_cast<unsigned>(
      test::soak_setting("STRATA_SOAK_SEED", static_cast<unsigned>(::getpid())));
  std::mt19937 random(seed);
  const std::vector<Job> all = jobs();
  for (uint64_t i = 0; i < test::soak_setting("STRATA_SOAK_SIGNALS", 10); ++i) {
    constexpr int kSignals[] = {SIGTERM, SIGINT, SIGKILL};
    const Job& job = all[static_cast<size_t>(i) % all.size()];
    const int signal = kSignals[random() % 3];
    const bool from_start = random() % 2 == 0;  // starting and rendezvous; else steps and saves
    const int after_ms = static_cast<int>(random() % 1500);
    const unsigned choice = static_cast<unsigned>(random());
    const test::TempFolder folder;
    const std::string marker =
        "STRATA_TEST_MARK=" + std::to_string(::getpid()) + "-" + std::to_string(i);
    SCOPED_TRACE("STRATA_SOAK_SEED=" + std::to_string(seed) + ", moment " + std::to_string(i) +
                 ", " + job.name + ": signal " + std::to_string(signal) + ", " +
                 std::to_string(after_ms) + " ms after " +
                 (from_start ? "its start" : "its first line"));
    const Outcome outcome = job.run(folder.path(), marker,
                                    test::Disturbance{after_ms, from_start, [&](pid_t first) {
                                                        strike(job, marker, first, signal, choice);
                                                      }});
    EXPECT_TRUE(all_end(marker)) << "left running";
    EXPECT_TRUE(job.documented(outcome, signal))
        << "exit code " << outcome.exit_code << ", signal " << outcome.signal << "\n"
        << outcome.output;
    const std::string sha256 = sha_of(job.run(folder.path(), marker));
    EXPECT_EQ(sha256.size(), 64u);
    if (!job.sha256.empty()) {
      EXPECT_EQ(sha256, job.sha256);
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace strata
