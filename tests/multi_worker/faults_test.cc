// Something happens to a worker of a job that trains: it is killed or stopped, or its connections
// are cut, at a moment that the seed chooses, of the rendezvous, a step, a checkpoint or the end.
// Nobody hangs; all others name it in time; the job, started again or going on in place, ends with
// the weights of one that nobody disturbed, and has used every sample of every epoch once.
//
// STRATA_SOAK_JOB_FAULTS=500 takes as many seeds; STRATA_SOAK_SEED=n others, and
// STRATA_TEST_ONLY=i only the i-th of them.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "multi_worker/history.h"
#include "strata/core/str_cat.h"
#include "support/killed_program.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using cluster::TaskId;
using test::from_environment;
using test::ProcessCluster;
using namespace std::chrono_literals;

// As in fault_trainer_main.cc.
constexpr int64_t kSamples = 48;
constexpr int64_t kSteps = 15;
constexpr int64_t kAwaitBehind = kSteps - 5;
constexpr auto kLiveness = 1500ms;
constexpr auto kStartTimeout = 4s;

struct Plan {
  uint64_t seed = 0;
  std::string mode;
  std::vector<int> replicas;  // of each worker, four together
  std::string implementation;
  std::string kind;
  std::string phase;
  int64_t number = 0;
  int64_t step = 0;
  TaskId victim;
  bool elastic = false;
  bool await = false;  // survivors wait for the lost worker before the last steps

  std::string fault() const { return str_cat(kind, " ", phase, " ", number, " ", step); }
  std::string describe() const {
    std::string text = str_cat("seed ", seed, ": ", mode, ", ", implementation, ", ",
                               replicas.size(), " workers, ", victim.to_string(), ": ", fault());
    if (elastic) text += await ? ", elastic, awaited" : ", elastic";
    return text;
  }
};

Plan draw(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const auto one_of = [&](const auto& all) { return all[below(std::size(all))]; };
  Plan plan;
  plan.seed = seed;
  plan.mode = one_of(std::vector<std::string>{"fit", "loop"});
  plan.replicas = one_of(std::vector<std::vector<int>>{{2, 2}, {2, 1, 1}, {3, 1}});
  plan.implementation = one_of(std::vector<std::string>{"AUTO", "WIRE"});
  plan.kind = one_of(std::vector<std::string>{"kill", "stop", "cut"});
  plan.victim = {"worker", static_cast<int>(below(plan.replicas.size()))};
  plan.elastic = below(3) == 0;
  struct Phase {
    std::string name;
    size_t times;
    int64_t every;
    size_t steps;
  };
  const auto phase = one_of(std::vector<Phase>{{"rendezvous", 1, 0, 50},
                                               {"collective", kSteps, 1, 16},
                                               {"checkpoint", kSteps / 2, 2, 16},
                                               {"shutdown", 1, 0, 8}});
  plan.phase = phase.name;
  plan.number = phase.every * static_cast<int64_t>(1 + below(phase.times));
  plan.step = 1 + static_cast<int64_t>(below(phase.steps));
  plan.await = below(2) == 0;
  return plan;
}

struct Moment {
  int64_t nanoseconds = 0;
  std::string text;  // the rest of the line
};

/// The first line that begins with `what` and a time, from `after` on.
std::optional<Moment> moment_of(const std::string& output, const std::string& what,
                                int64_t after = 0) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(what + " ")) continue;
    Moment found;
    std::istringstream words(line.substr(what.size()));
    words >> found.nanoseconds;
    std::getline(words, found.text);
    if (found.nanoseconds >= after) return found;
  }
  return std::nullopt;
}

std::string sha256_of(const std::string& output) {
  const size_t at = output.find("sha256 ");
  return at == std::string::npos ? "" : output.substr(at + 7, 64);
}

/// Of one process that nobody disturbs.
const std::string& undisturbed(const std::string& mode) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& sha = known[mode];
  if (sha.empty()) {
    const test::TempFolder folder;
    const test::Outcome outcome =
        test::run_program(STRATA_FAULT_TRAINER, {mode, "4", folder.path() + "/run"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    sha = sha256_of(outcome.output);
    test::JobHistory history;
    history.add(outcome.output);
    EXPECT_EQ(history.fault(kSteps, kSamples), "") << outcome.output;
  }
  return sha;
}

/// A job under one plan, over all of its starts.
class Job {
 public:
  explicit Job(const Plan& plan) : plan_(plan) {}

  void run();
  int64_t attempts() const { return history_.attempts(); }
  bool resumed() const { return history_.resumed(); }

 private:
  std::unique_ptr<ProcessCluster> start(bool with_fault);
  void disturbed();
  void in_place();
  std::map<TaskId, std::vector<ProcessCluster::Exit>> supervise(ProcessCluster& cluster) const;
  /// The job waits for the lost worker before it ends.
  bool awaits() const { return plan_.await && in_the_middle() && plan_.number <= kAwaitBehind; }
  bool in_the_middle() const;
  void check_survivor(const TaskId& task, const ProcessCluster::Exit& exit);
  void check_recovered(const TaskId& task, const ProcessCluster::Exit& exit);
  void check_error(const TaskId& task, const Moment& error, const std::string& output) const;
  void check_good(const TaskId& task, const ProcessCluster::Exit& exit) const;
  void finish();

  const Plan plan_;
  const test::TempFolder folder_;
  test::JobHistory history_;
  std::optional<int64_t> fault_at_;
  std::string address_;  // the victim's
};

/// All others meet it: there are steps left that they cannot do alone. Those who share memory need
/// no connection for a step, and the last ones take less time than to hear of a cut.
bool Job::in_the_middle() const {
  const bool training = plan_.phase == "collective" || plan_.phase == "checkpoint";
  return training && plan_.number <= kSteps - (plan_.kind == "cut" ? 3 : 1);
}

std::unique_ptr<ProcessCluster> Job::start(bool with_fault) {
  auto cluster = std::make_unique<ProcessCluster>(
      STRATA_FAULT_TRAINER, std::vector<std::string>{plan_.mode},
      std::map<std::string, int>{{"worker", static_cast<int>(plan_.replicas.size())}});
  for (const TaskId& task : cluster->tasks()) {
    std::vector<std::string> arguments = {
        std::to_string(plan_.replicas[static_cast<size_t>(task.index)]), folder_.path() + "/run"};
    if (plan_.elastic) arguments.emplace_back("elastic");
    cluster->set_arguments(task, arguments);
    cluster->set_environment(task, "STRATA_TEST_IMPLEMENTATION", plan_.implementation);
    if (plan_.await)
      cluster->set_environment(task, "STRATA_TEST_AWAIT", std::to_string(kAwaitBehind));
  }
  if (with_fault) cluster->set_environment(plan_.victim, "STRATA_TEST_FAULT", plan_.fault());
  address_ = cluster->spec().task_address("worker", plan_.victim.index);
  cluster->start();
  return cluster;
}

void Job::check_good(const TaskId& task, const ProcessCluster::Exit& exit) const {
  EXPECT_TRUE(exit.in_time && exit.code == 0) << task.to_string() << " (exit " << exit.code
                                              << ", signal " << exit.signal << "): " << exit.output;
  EXPECT_EQ(sha256_of(exit.output), undisturbed(plan_.mode)) << task.to_string() << exit.output;
}

/// It has ended well before anything happened, or because what happened did not matter any more; or
/// it says who is lost.
void Job::check_survivor(const TaskId& task, const ProcessCluster::Exit& exit) {
  if (exit.code == 0) return check_good(task, exit);
  EXPECT_TRUE(exit.in_time && exit.code == 1) << task.to_string() << " (exit " << exit.code
                                              << ", signal " << exit.signal << "): " << exit.output;
  const auto error = moment_of(exit.output, "error");
  ASSERT_TRUE(error && fault_at_) << task.to_string() << ": " << exit.output;
  check_error(task, *error, exit.output);
}

void Job::check_error(const TaskId& task, const Moment& error, const std::string& output) const {
  EXPECT_NE(error.text.find(str_cat(plan_.victim.to_string(), " at ", address_)), std::string::npos)
      << task.to_string() << ": " << output;
  // Before all have met nobody can be lost, only late. Half a second is for a busy machine.
  const bool met = error.text.find("rendezvous: ") == std::string::npos;
  const std::chrono::nanoseconds limit = !met                   ? kStartTimeout + 500ms
                                         : plan_.kind == "stop" ? kLiveness + 500ms
                                                                : 2s;
  EXPECT_LT(error.nanoseconds - *fault_at_, limit.count()) << task.to_string() << ": " << output;
}

/// The first start, with the fault.
void Job::disturbed() {
  const auto cluster = start(true);
  ASSERT_TRUE(cluster->wait_for_output(plan_.victim, "fault ", 60s))
      << cluster->output(plan_.victim);
  const auto fault = moment_of(cluster->output(plan_.victim), "fault");
  if (fault) fault_at_ = fault->nanoseconds;
  bool well = true;
  for (const TaskId& task : cluster->tasks()) {
    if (task == plan_.victim) continue;
    const ProcessCluster::Exit exit = cluster->wait(task, 30s);
    check_survivor(task, exit);
    history_.add(exit.output);
    well = well && exit.code == 0;
  }
  if (plan_.kind == "stop") cluster->kill(plan_.victim, SIGKILL);
  const ProcessCluster::Exit exit = cluster->wait(plan_.victim, 30s);
  history_.add(exit.output);
  EXPECT_TRUE(exit.in_time) << exit.output;
  if (plan_.kind != "cut") {
    EXPECT_EQ(exit.signal, SIGKILL) << exit.output;
  } else if (exit.code == 0) {
    check_good(plan_.victim, exit);
  } else {
    const auto error = moment_of(exit.output, "error");
    EXPECT_TRUE(error && error->text.find("/job:worker/task:") != std::string::npos) << exit.output;
  }
}

/// Once more, undisturbed, as a launcher does.
void Job::finish() {
  const auto cluster = start(false);
  for (const auto& [task, exit] : cluster->wait(60s)) {
    check_good(task, exit);
    history_.add(exit.output);
  }
}

/// Lets the job go on in place: whoever ends badly is started again alone, as `strata launch
/// --elastic` does, unless others have ended well.
/// @return the ends of each.
std::map<TaskId, std::vector<ProcessCluster::Exit>> Job::supervise(ProcessCluster& cluster) const {
  constexpr size_t kMostStarts = 5;
  std::map<TaskId, std::vector<ProcessCluster::Exit>> lives;
  for (const TaskId& task : cluster.tasks()) lives[task] = {};
  std::atomic<bool> ended_well = false;
  std::vector<Thread> threads;
  for (auto& [task, exits] : lives) {
    threads.emplace_back("supervise", [&, task = task, &exits = exits] {
      if (task == plan_.victim && plan_.kind == "stop") {
        for (const TaskId& other : cluster.tasks()) {
          if (other != task) (void)cluster.wait_for_output(other, "\nerror ", 3s);
        }
        cluster.kill(task, SIGKILL);
      }
      while (exits.size() < kMostStarts) {
        exits.push_back(cluster.wait(task, 60s));
        if (exits.back().code == 0) ended_well = true;
        if (ended_well || !exits.back().in_time) return;
        cluster.set_environment(task, "STRATA_TEST_FAULT", "");
        cluster.start(task);
      }
    });
  }
  threads.clear();  // waits for them
  return lives;
}

void Job::in_place() {
  const auto cluster = start(true);
  ASSERT_TRUE(cluster->wait_for_output(plan_.victim, "fault ", 60s))
      << cluster->output(plan_.victim);
  if (const auto fault = moment_of(cluster->output(plan_.victim), "fault")) {
    fault_at_ = fault->nanoseconds;
  }
  bool complete = false;
  for (const auto& [task, exits] : supervise(*cluster)) {
    if (task != plan_.victim) {
      check_recovered(task, exits.front());
      // Between the first checkpoint and the end nobody need be started again.
      EXPECT_TRUE(exits.size() == 1 || !in_the_middle()) << exits.front().output;
    }
    for (const ProcessCluster::Exit& exit : exits) {
      history_.add(exit.output);
      EXPECT_TRUE(exit.in_time) << task.to_string() << ": " << exit.output;
      if (exit.code == 0) check_good(task, exit);
    }
    // The first worker ends last, and has what there is to keep.
    if (task.index == 0) complete = exits.back().code == 0;
    if (task.index != 0 || !complete || !awaits()) continue;
    EXPECT_NE(exits.back().output.find(str_cat("workers ", plan_.replicas.size(), "\n")),
              std::string::npos)
        << exits.back().output;
  }
  if (!complete) finish();
}

/// In the middle of its work it has met an error that says who is lost; not so before all had met,
/// or at the end.
void Job::check_recovered(const TaskId& task, const ProcessCluster::Exit& exit) {
  ASSERT_TRUE(fault_at_.has_value());
  const auto error = moment_of(exit.output, "error", *fault_at_);
  if (!error && !in_the_middle()) return;
  ASSERT_TRUE(error.has_value()) << task.to_string() << ": " << exit.output;
  check_error(task, *error, exit.output);
}

void Job::run() {
  if (plan_.elastic) {
    in_place();
  } else {
    disturbed();
    finish();
  }
  EXPECT_EQ(history_.fault(kSteps, kSamples), "");
}

TEST(FaultsTest, WhateverHappensWheneverTheJobEndsAsIfNothingHad) {
  const int jobs = from_environment("STRATA_SOAK_JOB_FAULTS", 20);
  const auto first = static_cast<uint64_t>(from_environment("STRATA_SOAK_SEED", 1)) * 1'000'000;
  const int only = from_environment("STRATA_TEST_ONLY", -1);
  const bool verbose = from_environment("STRATA_TEST_VERBOSE", 0) != 0;  // and goes on
  for (const char* mode : {"fit", "loop"}) (void)undisturbed(mode);
  // They wait for much of the time.
  std::atomic<int> next = 0;
  std::atomic<int64_t> resumed = 0;
  std::vector<Thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back("faults", [&] {
      for (int job = next++; job < jobs && (verbose || !HasFailure()); job = next++) {
        if (only >= 0 && job != only) continue;
        const Plan plan = draw(first + static_cast<uint64_t>(job));
        SCOPED_TRACE(str_cat(job, ", ", plan.describe()));
        Job run(plan);
        const auto start = std::chrono::steady_clock::now();
        run.run();
        if (run.resumed()) ++resumed;
        if (verbose) {
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
          std::printf("%d, %s: %.1f s, %d attempts\n", job, plan.describe().c_str(), took.count(),
                      static_cast<int>(run.attempts()));
        }
      }
    });
  }
  threads.clear();
  EXPECT_GT(resumed, only >= 0 ? -1 : 0);  // or nothing was ever restored
}

// It is killed, the others go on, it is started again, taken in, and all end with the same weights.
void taken_in(const std::string& mode, const std::string& implementation, int victim) {
  Plan plan;
  plan.mode = mode;
  plan.replicas = {2, 1, 1};
  plan.implementation = implementation;
  plan.kind = "kill";
  plan.phase = "collective";
  plan.number = 4;
  plan.step = 3;
  plan.victim = {"worker", victim};
  plan.elastic = plan.await = true;
  SCOPED_TRACE(plan.describe());
  Job job(plan);
  job.run();
  EXPECT_GE(job.attempts(), 3);  // with it, without it, with it
}

TEST(FaultsTest, ALostWorkerIsTakenInAgainByFit) { taken_in("fit", "AUTO", 1); }
TEST(FaultsTest, ALostWorkerIsTakenInAgainByALoop) { taken_in("loop", "WIRE", 2); }

}  // namespace
}  // namespace strata
