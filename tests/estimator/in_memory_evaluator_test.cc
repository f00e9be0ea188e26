#include "strata/estimator/in_memory_evaluator.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "estimator/eval_events.h"
#include "estimator/line_model.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::estimator {
namespace {

using strata::test::TempFolder;
using test::line_input;
using test::LineModel;

RunConfig config_of(const std::string& tf_config) {
  RunConfigOptions options;
  options.environment.emplace();
  if (!tf_config.empty()) {
    options.environment.emplace(
        std::map<std::string, std::string, std::less<>>{{"TF_CONFIG", tf_config}});
  }
  return RunConfig(options);
}

TEST(InMemoryEvaluatorHookTest, EvaluatesPresentValuesAtTheBeginningAtIntervalsAndAtTheEnd) {
  const TempFolder folder;
  Estimator line(LineModel{.offset = 0.5}, {.model_dir = folder.path(), .config = config_of("")});
  const auto hook = std::make_shared<InMemoryEvaluatorHook>(
      line, line_input(6, 3, 1), InMemoryEvaluatorOptions{.name = "memory", .every_n_iter = 2});
  line.train(line_input(6, 2), {.hooks = {hook}, .max_steps = 5});

  const auto evaluations = detail::evaluations_in(line.eval_dir("memory"));
  std::vector<int64_t> steps;
  for (const auto& [step, metrics] : evaluations) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 2, 4, 5}));
  // As from the checkpoint that is saved at the end.
  const Evaluation saved = line.evaluate(line_input(6, 3, 1));
  ASSERT_TRUE(hook->evaluation());
  EXPECT_EQ(hook->evaluation()->metrics, saved.metrics);
  EXPECT_EQ(hook->evaluation()->global_step, 5);
  EXPECT_NE(evaluations.begin()->second.at("loss"), evaluations.rbegin()->second.at("loss"));
}

TEST(InMemoryEvaluatorHookTest, RefusesWhatItCannotDo) {
  const TempFolder folder;
  Estimator line(LineModel{}, {.model_dir = folder.path(), .config = config_of("")});
  expect_error_containing(
      [&] {
        InMemoryEvaluatorHook(line, line_input(6, 2), InMemoryEvaluatorOptions{.every_n_iter = 0});
      },
      ErrorCode::kInvalidArgument, "got every_n_iter 0; expected 1 or more");
  Estimator of_cluster(LineModel{}, {.model_dir = folder.path(),
                                     .config = config_of(R"({"cluster": {"worker": ["a:1", "b:1"]},
                            "task": {"type": "worker", "index": 0}})")});
  const auto hook = std::make_shared<InMemoryEvaluatorHook>(of_cluster, line_input(6, 2));
  expect_error_containing(
      [&] { of_cluster.train(line_input(6, 2), {.hooks = {hook}, .max_steps = 1}); },
      ErrorCode::kFailedPrecondition, "got a cluster of 2 workers; it supports one process");
}

TEST(InMemoryEvaluatorHookTest, AnEvaluationHasNoVariablesThatAreTrained) {
  class Asks final : public SessionRunHook {
   public:
    void begin(Session& session) override { (void)session.variable_value("w"); }
  };
  const TempFolder folder;
  Estimator line(LineModel{}, {.model_dir = folder.path(), .config = config_of("")});
  expect_error_containing(
      [&] { line.evaluate(line_input(6, 2, 1), {.hooks = {std::make_shared<Asks>()}}); },
      ErrorCode::kFailedPrecondition, "evaluate trains no variables; use the hook in train");
}

}  // namespace
}  // namespace strata::estimator
