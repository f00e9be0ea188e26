#include "strata/estimator/estimator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "estimator/line_model.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/mean_metrics.h"
#include "strata/optim/losses.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::estimator {
namespace {

using strata::test::TempFolder;
using test::line_input;
using test::LineModel;

RunConfig config(RunConfigOptions options = {}) {
  options.environment = cluster::Environment();
  return RunConfig(std::move(options));
}

struct Params {
  int64_t units = 8;
  double learning_rate = 0.05;
};

/// Two layers with BatchNormalization between, for 4 features and 3 classes.
EstimatorSpec classifier(const Features& features, const Labels& labels, Mode mode,
                         ModelContext& context) {
  const auto& params = context.params<Params>();
  at::Tensor x = features.at("x").values;
  x = context.layer<layers::Dense>("hidden", params.units, "relu")(x);
  x = context.layer<layers::BatchNormalization>("norm")(x);
  const at::Tensor logits = context.layer<layers::Dense>("logits", 3)(x);
  EstimatorSpec spec{.predictions = {{"class", {logits.argmax(1)}}, {"logits", {logits}}}};
  if (mode == Mode::kPredict) return spec;
  spec.loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true}).mean();
  spec.eval_metrics = {
      context.metric<metrics::SparseCategoricalAccuracy>("accuracy", labels, logits)};
  if (mode != Mode::kTrain) return spec;
  optimizers::Optimizer& adam =
      context.optimizer([&] { return optimizers::Adam({.learning_rate = params.learning_rate}); });
  spec.train_op = context.minimize(adam, spec.loss);
  context.scalar("doubled", spec.loss * 2);
  return spec;
}

Input classes(int64_t rows, int64_t batch, int64_t repeat) {
  const at::Tensor y = at::arange(rows, at::kLong).remainder(3);
  const at::Tensor x = at::arange(rows * 4, at::kFloat).reshape({rows, 4}).sin() * 0.1 +
                       y.unsqueeze(1).to(at::kFloat);
  return data::Dataset::from_tensor_slices({x, y}).repeat(repeat).batch(batch);
}

EstimatorOptions classifier_options(const TempFolder& folder, RunConfigOptions options = {}) {
  options.tf_random_seed = 1;
  return {.model_dir = folder.path(), .config = config(std::move(options)), .params = Params()};
}

TEST(EstimatorTest, TrainsEvaluatesAndPredictsWithLayersByName) {
  const TempFolder folder;
  Estimator estimator(classifier, classifier_options(folder));
  const InputFn input = [](const InputContext&) { return classes(60, 20, -1); };
  const InputFn once = [](const InputContext&) { return classes(50, 20, 1); };
  const double before = estimator.evaluate(once).at("loss");
  estimator.train(input, {.steps = 500});  // moving statistics follow slowly
  const Evaluation evaluation = estimator.evaluate(once);
  EXPECT_EQ(evaluation.global_step, 500);
  EXPECT_LT(evaluation.at("loss"), before / 2);
  EXPECT_GT(evaluation.at("accuracy"), 0.9);

  EXPECT_EQ(estimator.variable_names(),
            (std::vector<std::string>{"global_step",
                                      "hidden/bias",
                                      "hidden/kernel",
                                      "logits/bias",
                                      "logits/kernel",
                                      "norm/beta",
                                      "norm/gamma",
                                      "norm/moving_mean",
                                      "norm/moving_variance",
                                      "optimizer/hidden/bias/momentum",
                                      "optimizer/hidden/bias/velocity",
                                      "optimizer/hidden/kernel/momentum",
                                      "optimizer/hidden/kernel/velocity",
                                      "optimizer/iterations",
                                      "optimizer/learning_rate",
                                      "optimizer/logits/bias/momentum",
                                      "optimizer/logits/bias/velocity",
                                      "optimizer/logits/kernel/momentum",
                                      "optimizer/logits/kernel/velocity",
                                      "optimizer/norm/beta/momentum",
                                      "optimizer/norm/beta/velocity",
                                      "optimizer/norm/gamma/momentum",
                                      "optimizer/norm/gamma/velocity"}));
  EXPECT_EQ(estimator.variable_value("hidden/kernel").sizes(), (std::vector<int64_t>{4, 8}));
  EXPECT_FALSE(at::equal(estimator.variable_value("norm/moving_mean"), at::zeros({8})));

  int64_t rows = 0;
  int64_t right = 0;
  for (const Features& row : estimator.predict(once)) {
    EXPECT_EQ(row.at("logits").values.sizes(), (std::vector<int64_t>{3}));
    right += row.at("class").values.item<int64_t>() == rows % 3 ? 1 : 0;
    ++rows;
  }
  EXPECT_EQ(rows, 50);
  EXPECT_NEAR(static_cast<double>(right) / 50, evaluation.at("accuracy"), 1e-6);
  Predictions batches =
      estimator.predict(once, {.predict_keys = {"class"}, .yield_single_examples = false});
  const auto first = batches.next();
  EXPECT_EQ(first->size(), 1);
  EXPECT_EQ(first->at("class").values.sizes(), (std::vector<int64_t>{20}));
}

at::Tensor weights_after(Strategy* strategy, int64_t batch, int64_t steps) {
  const TempFolder folder;
  Estimator estimator(
      LineModel(), {.model_dir = folder.path(), .config = config({.train_distribute = strategy})});
  estimator.train(line_input(12, batch), {.steps = steps});
  return estimator.variable_value("w");
}

TEST(EstimatorTest, ABatchIsAReplicasAndTwoTrainAsOneWithTwice) {
  MirroredStrategy two({.devices = {"cpu:0", "cpu:1"}});
  EXPECT_TRUE(at::allclose(weights_after(&two, 2, 5), weights_after(nullptr, 4, 5), 1e-6));
}

TEST(EstimatorTest, DropsTheLastIncompleteStepOfTrainingAndCountsThatOfEvaluation) {
  MirroredStrategy two({.devices = {"cpu:0", "cpu:1"}});
  const TempFolder folder;
  Estimator estimator(LineModel(),
                      {.model_dir = folder.path(),
                       .config = config({.train_distribute = &two, .eval_distribute = &two})});
  estimator.train(line_input(10, 2, 1));  // five batches
  EXPECT_EQ(estimator.variable_value("global_step").item<int64_t>(), 2);
  const Evaluation on_two = estimator.evaluate(line_input(10, 2, 1));
  Estimator one(LineModel(), {.model_dir = folder.path(), .config = config()});
  const Evaluation on_one = one.evaluate(line_input(10, 2, 1), {.name = "one"});
  EXPECT_NEAR(on_two.at("loss"), on_one.at("loss"), 1e-5 * on_one.at("loss"));
  EXPECT_NEAR(on_two.at("mae"), on_one.at("mae"), 1e-5);
}

/// Fails once, behind step `step`.
class Interruption final : public SessionRunHook {
 public:
  explicit Interruption(int64_t step) : step_(step) {}
  void after_run(Session& session, const StepResults&) override {
    STRATA_CHECK(session.global_step() != step_, kCancelled, "interrupted");
  }

 private:
  int64_t step_;
};

TEST(EstimatorTest, AnInterruptedTrainingGoesOnWithTheSameBits) {
  const InputFn shuffled = [](const InputContext&) -> Input {
    return classes(60, 1, 3).dataset.unbatch().shuffle(60, {.seed = 3}).batch(7);
  };
  const auto train = [&](const TempFolder& folder, const Hooks& hooks) {
    Estimator estimator(classifier, classifier_options(folder, {.save_checkpoints_steps = 4}));
    estimator.train(shuffled, {.hooks = hooks, .max_steps = 20});
    return estimator.variable_value("hidden/kernel");
  };
  const TempFolder whole;
  const at::Tensor expected = train(whole, {});
  const TempFolder parts;
  EXPECT_THROW(train(parts, {std::make_shared<Interruption>(10)}), Error);
  EXPECT_TRUE(at::equal(train(parts, {}), expected));
  // From the beginning of the input, as TensorFlow does it: other batches.
  const TempFolder anew;
  EXPECT_THROW(train(anew, {std::make_shared<Interruption>(10)}), Error);
  Estimator estimator(
      classifier, classifier_options(anew, {.save_checkpoints_steps = 4, .resume_input = false}));
  estimator.train(shuffled, {.max_steps = 20});
  EXPECT_FALSE(at::equal(estimator.variable_value("hidden/kernel"), expected));
}

TEST(EstimatorTest, TheSameSeedGivesTheSameWeights) {
  const auto trained = [] {
    const TempFolder folder;
    Estimator estimator(classifier, classifier_options(folder));
    estimator.train([](const InputContext&) { return classes(60, 20, -1); }, {.steps = 3});
    return estimator.variable_value("logits/kernel");
  };
  EXPECT_TRUE(at::equal(trained(), trained()));
}

TEST(EstimatorTest, StopsWhereTheLossIsNaN) {
  const TempFolder folder;
  const EstimatorOptions options{.model_dir = folder.path(), .config = config()};
  Estimator estimator(LineModel{.w = std::nan("")}, options);
  EXPECT_THROW(estimator.train(line_input(6, 2), {.steps = 3}), NanLossDuringTrainingError);
}

ModelFn without(const std::string& part) {
  return [part](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
    EstimatorSpec spec = LineModel()(features, labels, mode, context);
    if (part == "train_op") spec.train_op = nullptr;
    if (part == "loss") spec.loss = at::Tensor();
    if (part == "scalar loss") spec.loss = at::ones({2});
    if (part == "predictions") spec.predictions.clear();
    if (part == "free name") spec.eval_metrics = {context.mean("loss", at::ones({2}))};
    return spec;
  };
}

TEST(EstimatorTest, SaysWhatASpecLacks) {
  const TempFolder folder;
  const EstimatorOptions options{.model_dir = folder.path(), .config = config()};
  const InputFn input = line_input(6, 2, 1);
  expect_error([&] { Estimator(without("train_op"), options).train(input); },
               "[estimator] model_fn: missing train_op in the spec of train");
  expect_error([&] { Estimator(without("loss"), options).train(input); },
               "[estimator] model_fn: missing loss in the spec of train");
  expect_error([&] { (void)Estimator(without("scalar loss"), options).evaluate(input); },
               "[estimator] model_fn: loss must be scalar; got 2 elements; take their mean");
  expect_error([&] { (void)Estimator(without("predictions"), options).predict(input).next(); },
               "[estimator] model_fn: missing predictions in the spec of predict");
  expect_error([&] { (void)Estimator(without("free name"), options).evaluate(input); },
               "[estimator] model_fn: a metric called 'loss' is not allowed: the name is taken "
               "(loss and global_step are the estimator's)");
}

TEST(EstimatorTest, AStepMayNotAskForWhatTheFirstCallHasNotMade) {
  const TempFolder folder;
  const ModelFn late = [](const Features& features, const Labels& labels, Mode mode,
                          ModelContext& context) {
    if (!context.building()) {
      context.variable("late", [] { return at::zeros({1}); });
    }
    return LineModel()(features, labels, mode, context);
  };
  Estimator estimator(late, {.model_dir = folder.path(), .config = config()});
  expect_error([&] { estimator.train(line_input(6, 2), {.steps = 1}); },
               ErrorCode::kFailedPrecondition,
               "[estimator] ModelContext: got 'late' for the first time in a step; the model_fn's "
               "first call (building()) must ask for everything that later ones use");
}

TEST(EstimatorTest, HooksSeeTheLossAndScalarsOfAStep) {
  class Values final : public SessionRunHook {
   public:
    void after_run(Session& session, const StepResults& results) override {
      EXPECT_NEAR(*results.scalar("doubled"), 2 * results.loss(), 1e-6);
      EXPECT_EQ(results.scalar_names(), std::vector<std::string>{"doubled"});
      EXPECT_FALSE(results.scalar("other").has_value());
      EXPECT_NEAR(session.loss_over_workers(), results.loss(), 1e-9);
      ++steps;
    }
    int64_t steps = 0;
  };
  const TempFolder folder;
  const auto values = std::make_shared<Values>();
  Estimator estimator(classifier, classifier_options(folder));
  // Often enough that the step is recorded and replayed.
  estimator.train([](const InputContext&) { return classes(60, 20, -1); },
                  {.hooks = {values}, .steps = 400});
  EXPECT_EQ(values->steps, 400);
}

TEST(EstimatorTest, PenaltiesOfWeightsAreThoseOfItsLayers) {
  const TempFolder folder;
  const auto penalized = [](const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    EstimatorSpec spec = LineModel()(features, labels, mode, context);
    layers::DenseOptions options{.kernel_initializer = "ones"};
    options.kernel_regularizer = regularizers::L2(0.25);
    context.layer<layers::Dense>("ones", 3, options)(features.at("x").values);
    spec.loss = context.regularization_loss();
    return spec;
  };
  Estimator estimator(penalized, {.model_dir = folder.path(), .config = config()});
  EXPECT_NEAR(estimator.evaluate(line_input(6, 2, 1)).at("loss"), 0.75, 1e-6);
}

TEST(EstimatorTest, AddsMetricsToAModel) {
  const TempFolder folder;
  Estimator estimator(LineModel(), {.model_dir = folder.path(), .config = config()});
  estimator.train(line_input(6, 2), {.steps = 3});
  Estimator more =
      add_metrics(estimator,
                  [](const Features& features, const Labels&, const Features& predictions,
                     ModelContext& context) -> std::vector<EvalMetric> {
                    return {context.mean("x", features.at("x").values),
                            context.mean("y", predictions.at("y").values)};
                  });
  const Evaluation evaluation = more.evaluate(line_input(6, 2, 1));
  EXPECT_EQ(evaluation.global_step, 3);
  EXPECT_NEAR(evaluation.at("x"), 3.5, 1e-6);
  EXPECT_NEAR(evaluation.at("y"), 3.5 * estimator.variable_value("w").item<double>(), 1e-5);
  EXPECT_NEAR(evaluation.at("loss"), estimator.evaluate(line_input(6, 2, 1)).at("loss"), 1e-6);
}

TEST(EstimatorTest, ReadsTexts) {
  const Feature texts = text_feature(std::vector<std::string>{"a", "", "déjà"});
  EXPECT_EQ(texts.values.sizes(), (std::vector<int64_t>{3, 6}));
  EXPECT_EQ(text_at(texts, 0), "a");
  EXPECT_EQ(text_at(texts, 1), "");
  EXPECT_EQ(text_at(texts, 2), "déjà");
  expect_error(
      [&] { (void)text_at(texts, 3); },
      "[estimator] text_at: got row 3, index 0; expected rows below 3 and indices below 1");
  EXPECT_THROW((void)text_at({.values = at::zeros({1, 1})}, 0), Error);
}

TEST(EstimatorTest, StopAtStepAndSaverHooksWantOneWayToCount) {
  EXPECT_THROW(StopAtStepHook({}), Error);
  EXPECT_THROW(StopAtStepHook({.num_steps = 1, .last_step = 1}), Error);
  EXPECT_THROW(CheckpointSaverHook({}), Error);
  EXPECT_THROW(CheckpointSaverHook({.save_steps = 1, .save_secs = 1}), Error);
  EXPECT_THROW(LoggingTensorHook(0), Error);
  EXPECT_THROW(StepCounterHook(0), Error);
  EXPECT_THROW(SummarySaverHook(0), Error);
}

TEST(EstimatorTest, AnEmptyInputIsAnErrorThatSaysSo) {
  const TempFolder folder;
  Estimator estimator(LineModel(), {.model_dir = folder.path(), .config = config()});
  expect_error([&] { estimator.train(line_input(6, 2, 0)); },
               "[estimator] input_fn: got a dataset without batches; the model is made by the "
               "first one");
}

}  // namespace
}  // namespace strata::estimator
