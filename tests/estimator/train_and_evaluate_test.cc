#include "strata/estimator/train_and_evaluate.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "estimator/evaluator_loop.h"
#include "estimator/line_model.h"
#include "strata/checkpoint/safetensors.h"
#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "support/expect_error.h"
#include "support/log_lines.h"
#include "support/temp_folder.h"

namespace strata::estimator {
namespace {

using strata::test::TempFolder;
using test::line_input;
using test::LineModel;

/// Writes down the steps that are evaluated.
class Steps final : public Exporter {
 public:
  explicit Steps(std::vector<int64_t>& steps) : Exporter("steps"), steps_(steps) {}
  std::optional<std::string> export_model(Estimator&, const std::string&, const std::string&,
                                          const Evaluation& evaluation, bool) override {
    steps_.push_back(evaluation.global_step);
    return std::nullopt;
  }

 private:
  std::vector<int64_t>& steps_;
};

EstimatorOptions options_in(const TempFolder& folder, double& clock) {
  return {.model_dir = folder.path(),
          .config = RunConfig(RunConfigOptions{.save_checkpoints_steps = 4,
                                               .environment = cluster::Environment(),
                                               .now = [&clock] { return clock; }})};
}

TEST(TrainAndEvaluateTest, ThrottlesEvaluationsButTheFirstAndTheLast) {
  const TempFolder folder;
  double clock = 0;
  Estimator estimator(LineModel(), options_in(folder, clock));
  std::vector<int64_t> evaluated;
  const TrainAndEvaluateResult result =
      train_and_evaluate(estimator, {.input_fn = line_input(6, 2), .max_steps = 10},
                         {.input_fn = line_input(6, 3, 1),
                          .exporters = {std::make_shared<Steps>(evaluated)},
                          .throttle_secs = 600});
  EXPECT_EQ(evaluated, (std::vector<int64_t>{4, 10}));
  EXPECT_EQ(result.evaluation->global_step, 10);
  EXPECT_EQ(result.exports, std::vector<std::string>{""});
}

TEST(TrainAndEvaluateTest, AnEvaluatorLooksEveryThrottleSecsUntilTheLastStep) {
  const TempFolder folder;
  double clock = 0;
  Estimator trainer(LineModel(), options_in(folder, clock));
  Estimator evaluator(LineModel(), options_in(folder, clock));
  std::vector<int64_t> evaluated;
  std::vector<double> sleeps;
  const EvalSpec spec{.input_fn = line_input(6, 3, 1),
                      .exporters = {std::make_shared<Steps>(evaluated)},
                      .start_delay_secs = 5,
                      .throttle_secs = 20};
  strata::test::LogLines log;
  const auto sleep = [&](double seconds) {
    sleeps.push_back(seconds);
    clock += seconds;
    // Nothing is there when it looks first; then there are 3 steps, the same again, and 8.
    if (sleeps.size() == 2) trainer.train(line_input(6, 2), {.max_steps = 3});
    if (sleeps.size() == 4) trainer.train(line_input(6, 2), {.max_steps = 8});
  };
  const TrainAndEvaluateResult result = detail::run_evaluator(evaluator, spec, 8, sleep);
  EXPECT_EQ(evaluated, (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(sleeps, (std::vector<double>{5, 20, 20, 20}));
  EXPECT_EQ(result.evaluation->global_step, 8);
  EXPECT_NE(log.text().find("the evaluator finds no new checkpoint"), std::string::npos);
}

TEST(TrainAndEvaluateTest, WithoutMaxStepsAnEvaluatorEndsWithTheTraining) {
  const TempFolder folder;
  double clock = 0;
  Estimator estimator(LineModel(), options_in(folder, clock));
  estimator.train(line_input(6, 2, 1));
  EXPECT_EQ(detail::finished_step(folder.path()), 3);
  const auto never = [](double) { FAIL() << "the last step is evaluated"; };
  const TrainAndEvaluateResult result = detail::run_evaluator(
      estimator, {.input_fn = line_input(6, 3, 1), .start_delay_secs = 0}, {}, never);
  EXPECT_EQ(result.evaluation->global_step, 3);
}

TEST(TrainAndEvaluateTest, ExportsTheVariablesOfACheckpointWhole) {
  const TempFolder folder;
  double clock = 0;
  Estimator estimator(LineModel{.momentum = 0.9}, options_in(folder, clock));
  const TrainAndEvaluateResult result = train_and_evaluate(
      estimator, {.input_fn = line_input(6, 2), .max_steps = 10},
      {.input_fn = line_input(6, 3, 1),
       .exporters = {std::make_shared<LatestExporter>(ExporterOptions{
                         .name = "latest", .export_fn = export_checkpoint, .exports_to_keep = 2}),
                     std::make_shared<FinalExporter>("final", export_checkpoint)},
       .throttle_secs = 0});
  ASSERT_EQ(result.exports.size(), 2);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/export/latest")) {
    names.push_back(entry.path().filename().string());
    EXPECT_EQ(names.back().size(), 10);  // seconds since 1970, and nothing temporary
  }
  EXPECT_EQ(names.size(), 2);
  for (const std::string& exported : result.exports) {
    const NamedTensors tensors = load_safetensors(exported + "/variables.safetensors");
    ASSERT_EQ(tensors.size(), 1);
    EXPECT_EQ(tensors[0].first, "w");
    EXPECT_TRUE(at::equal(tensors[0].second, estimator.variable_value("w")));
    EXPECT_EQ(Json::parse(read_file(exported + "/model.json")).at("global_step").as_int(), 10);
  }
}

/// Fails behind its second step.
class SecondStepFails final : public SessionRunHook {
 public:
  void after_run(Session& session, const StepResults&) override {
    STRATA_CHECK(session.global_step() != 6, kCancelled, "interrupted");
  }
};

TEST(TrainAndEvaluateTest, WithAnotherInputAnInterruptedTrainingBeginsItAnew) {
  const TempFolder folder;
  double clock = 0;
  Estimator estimator(LineModel(), options_in(folder, clock));
  EXPECT_THROW(estimator.train(line_input(6, 2), {.hooks = {std::make_shared<SecondStepFails>()}}),
               Error);
  strata::test::LogLines log;
  estimator.train(
      [](const InputContext& context) -> Input {
        return line_input(6, 2, 1)(context).dataset.prefetch(1).shuffle(1);
      },
      {});
  EXPECT_NE(log.text().find("is of training with another input"), std::string::npos) << log.text();
  EXPECT_EQ(estimator.variable_value("global_step").item<int64_t>(), 4 + 3);
}

TEST(TrainAndEvaluateTest, WarmStartNamesWhatDoesNotFit) {
  const TempFolder source;
  double clock = 0;
  Estimator trained(LineModel(), options_in(source, clock));
  trained.train(line_input(6, 2), {.steps = 1});
  const auto start = [&](const WarmStartSettings& settings) {
    const TempFolder folder;
    EstimatorOptions options = options_in(folder, clock);
    options.warm_start_from = settings;
    Estimator estimator(LineModel{.offset = 1}, options);
    estimator.train(line_input(6, 2), {.steps = 1});
  };
  // Trainable variables alone: `offset`, which the other model lacks, is not.
  EXPECT_NO_THROW(start({.checkpoint = source.path()}));
  EXPECT_THROW(start({.checkpoint = source.path(), .all_names = true}), Error);
  EXPECT_THROW(start({.checkpoint = source.path(), .variables = {"("}}), Error);
  EXPECT_THROW(start({.checkpoint = source.path(), .previous_names = {{"w", "v"}}}), Error);
  EXPECT_THROW(start({.checkpoint = source.path() + "/missing"}), Error);
}

}  // namespace
}  // namespace strata::estimator
