// A job with two parameter servers (chief, workers, evaluator), of which one is killed. Each task that
// does not end well is started again, as a scheduler does. A push adds 1 to an element of its own,
// which is that of its task, of how often the task was started before (its life), and of its batch.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support/killed_program.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata::test {
namespace {

using namespace std::chrono_literals;
using cluster::TaskId;

constexpr auto kEndLimit = 240s;
constexpr int kMostLives = 8;
const TaskId kTheChief = {"chief", 0};

/// What a checkpoint has of a life's pushes in one variable.
struct Pushes {
  int first = 0;
  int last = -1;
  int count = 0;
  double most = 0;
  friend bool operator==(const Pushes&, const Pushes&) = default;
};
/// Of a task (0: the chief), a life and a variable.
using PushKey = std::tuple<int, int, std::string>;

struct Report {
  int global_step = -1;
  std::map<PushKey, Pushes> pushes;
};

/// Of the newest checkpoint.
Report report_of(const std::string& folder) {
  const Outcome outcome = run_program(STRATA_ESTIMATOR_WORKER, {"report", folder});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  Report report;
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) {
    int task = 0;
    int life = 0;
    char variable[32] = {};
    Pushes each;
    if (std::sscanf(line.c_str(), "global_step %d", &report.global_step) == 1) continue;
    if (std::sscanf(line.c_str(), "%d %d %31[a-z]: %d %d %d %lf", &task, &life, variable,
                    &each.first, &each.last, &each.count, &each.most) == 7) {
      report.pushes[{task, life, variable}] = each;
    }
  }
  return report;
}

int task_number(const TaskId& task) { return task.job == "chief" ? 0 : 1 + task.index; }

int steps_in(const std::string& output) {
  int steps = 0;
  for (size_t at = 0; (at = output.find("step ", at)) != std::string::npos; ++at) {
    if (at == 0 || output[at - 1] == '\n') ++steps;
  }
  return steps;
}

/// A job whose tasks are started again until the chief has ended well.
class ScheduledJob {
 public:
  struct Life {
    int steps = 0;  // that it printed
    ProcessCluster::Exit exit;
  };

  ScheduledJob(const std::string& folder, int servers, int max_steps)
      : cluster_(STRATA_ESTIMATOR_WORKER, {"counted", folder, std::to_string(max_steps)},
                 {{"chief", 1}, {"worker", 2}, {"ps", servers}, {"evaluator", 1}}) {
    for (const TaskId& task : cluster_.tasks()) {
      cluster_.set_arguments(task, {"0"});
      lives_[task];
    }
    cluster_.start();
  }

  /// Begins to look after all tasks.
  void schedule() {
    for (const TaskId& task : cluster_.tasks()) {
      schedulers_.emplace_back([this, task] { look_after(task); });
    }
  }
  void join() {
    for (std::thread& each : schedulers_) each.join();
    schedulers_.clear();
  }

  ProcessCluster& cluster() { return cluster_; }
  /// Behind `join`.
  const std::map<TaskId, std::vector<Life>>& lives() const { return lives_; }

 private:
  void look_after(const TaskId& task) {
    std::vector<Life>& lives = lives_.at(task);
    while (true) {
      const ProcessCluster::Exit exit = cluster_.wait(task, kEndLimit);
      lives.push_back({.steps = steps_in(exit.output), .exit = exit});
      const bool well = exit.in_time && exit.code == 0;
      if (well && task == kTheChief) done_ = true;
      if (well || !exit.in_time || done_ || lives.size() == kMostLives) return;
      cluster_.set_arguments(task, {std::to_string(lives.size())});
      cluster_.start(task);
    }
  }

  ProcessCluster cluster_;
  std::map<TaskId, std::vector<Life>> lives_;  // each is its scheduler's until `join`
  std::atomic<bool> done_ = false;
  std::vector<std::thread> schedulers_;
};

std::string story_of(const ScheduledJob& job) {
  std::string story;
  for (const auto& [task, lives] : job.lives()) {
    for (const ScheduledJob::Life& life : lives) {
      story += task.to_string() + ": exit " + std::to_string(life.exit.code) + ", signal " +
               std::to_string(life.exit.signal) + ", " + std::to_string(life.steps) +
               " steps: " + life.exit.output.substr(0, life.steps == 0 ? 2000 : 0) + '\n';
    }
  }
  return story;
}

void expect_good_end(const ScheduledJob& job) {
  for (const auto& [task, lives] : job.lives()) {
    const ProcessCluster::Exit& exit = lives.back().exit;
    EXPECT_TRUE(exit.in_time && exit.code == 0) << task.to_string();
  }
}

class EstimatorLostServerTest : public testing::TestWithParam<int> {};

// The other server lives on with its newer values.
TEST_P(EstimatorLostServerTest, TheStateOfAllServersIsThatOfTheLastCheckpoint) {
  const TempFolder folder;
  constexpr int kSteps = 1500;
  ScheduledJob job(folder.path(), 2, kSteps);
  ASSERT_TRUE(job.cluster().wait_for_output(kTheChief, "saved 2", kEndLimit));
  const TaskId lost = {"ps", GetParam()};
  job.cluster().kill(lost);
  const ProcessCluster::Exit exit = job.cluster().wait(kTheChief, kEndLimit);
  ASSERT_EQ(exit.code, 1) << exit.output;
  EXPECT_NE(exit.output.find(lost.to_string()), std::string::npos) << exit.output;
  const std::vector<TaskId> workers = {{"worker", 0}, {"worker", 1}};
  for (const TaskId& task : workers) {  // which have ended alike, or wait for the server to come
    job.cluster().kill(task);
    (void)job.cluster().wait(task, kEndLimit);
  }
  const Report saved = report_of(folder.path());
  ASSERT_GT(saved.global_step, 0);
  ASSERT_LT(saved.global_step, kSteps);

  job.schedule();  // starts them again
  job.join();
  const Report report = report_of(folder.path());
  EXPECT_GE(report.global_step, kSteps);
  for (const TaskId& task : {kTheChief, workers[0], workers[1]}) {
    for (const std::string variable : {"first", "second"}) {
      const auto of_first_life = [&](const Report& each) {
        const auto found = each.pushes.find({task_number(task), 0, variable});
        return found == each.pushes.end() ? Pushes() : found->second;
      };
      EXPECT_EQ(of_first_life(report), of_first_life(saved)) << task.to_string() << ' ' << variable;
    }
  }
  expect_good_end(job);
  if (HasFailure()) std::printf("%s\n", story_of(job).c_str());
}

INSTANTIATE_TEST_SUITE_P(Servers, EstimatorLostServerTest, testing::Values(0, 1));

}  // namespace
}  // namespace strata::test
