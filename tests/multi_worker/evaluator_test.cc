// An evaluator beside a job: nobody waits for it, and it sees what the others saved.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "strata/core/json.h"
#include "strata/core/str_cat.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::ProcessCluster;
using namespace std::chrono_literals;

constexpr int kEpochs = 3;
const cluster::TaskId kEvaluator = {"evaluator", 0};

/// By number: lines "<what> <number> accuracy <a>".
std::map<int, std::string> accuracies(const std::string& output, const std::string& what) {
  std::map<int, std::string> found;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, name, value;
    int number = 0;
    if (words >> first >> number >> name >> value && first == what) found[number] = value;
  }
  return found;
}

class EvaluatorTest : public testing::Test {
 protected:
  EvaluatorTest()
      : cluster_(STRATA_EVALUATED_JOB, {folder_.path(), std::to_string(kEpochs)},
                 {{"chief", 1}, {"worker", 1}, {"evaluator", 1}}) {}

  void expect_well(const cluster::TaskId& task) {
    const ProcessCluster::Exit exit = cluster_.wait(task, 120s);
    EXPECT_TRUE(exit.in_time && exit.code == 0)
        << task.to_string() << " (exit " << exit.code << ", signal " << exit.signal
        << "): " << exit.output;
  }

  void expect_the_validations_accuracies() {
    const auto own = accuracies(cluster_.output({"chief", 0}), "epoch");
    const auto evaluated = accuracies(cluster_.output(kEvaluator), "evaluated");
    EXPECT_EQ(own.size(), static_cast<size_t>(kEpochs));
    EXPECT_TRUE(evaluated.contains(kEpochs)) << cluster_.output(kEvaluator);
    for (const auto& [number, accuracy] : evaluated) EXPECT_EQ(accuracy, own.at(number));
  }

  const test::TempFolder folder_;
  ProcessCluster cluster_;
};

TEST_F(EvaluatorTest, ItEvaluatesWhatTheOthersSave) {
  cluster_.start();
  for (const cluster::TaskId& task : cluster_.tasks()) expect_well(task);
  expect_the_validations_accuracies();
}

// It is in no spec, and comes when all others have ended.
TEST_F(EvaluatorTest, NobodyWaitsForIt) {
  Json spec = Json::object();
  for (const char* job : {"chief", "worker"}) spec.set(job, *cluster_.spec().to_json().find(job));
  for (const cluster::TaskId& task : cluster_.tasks()) {
    cluster_.set_environment(
        task, "TF_CONFIG",
        Json::object()
            .set("cluster", spec)
            .set("task", Json::object().set("type", task.job).set("index", task.index))
            .dump());
  }
  const cluster::TaskId trainers[] = {{"chief", 0}, {"worker", 0}};
  for (const cluster::TaskId& task : trainers) cluster_.start(task);
  for (const cluster::TaskId& task : trainers) expect_well(task);
  cluster_.start(kEvaluator);
  expect_well(kEvaluator);
  expect_the_validations_accuracies();
}

// The job has gone wrong: it ends when it is told to, in order.
TEST_F(EvaluatorTest, SigtermEndsItInOrder) {
  cluster_.set_environment(kEvaluator, "STRATA_LOG_LEVEL", "info");
  cluster_.start(kEvaluator);
  ASSERT_TRUE(cluster_.wait_for_output(kEvaluator, "waiting for checkpoints in "))
      << cluster_.output(kEvaluator);
  cluster_.kill(kEvaluator, SIGTERM);
  expect_well(kEvaluator);
}

}  // namespace
}  // namespace strata
