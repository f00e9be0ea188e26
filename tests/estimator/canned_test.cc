#include "strata/estimator/canned.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "strata/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::estimator {
namespace {

namespace fc = feature_column;

std::vector<FeatureColumn> x_alone() { return {fc::numeric_column("x")}; }

/// Eight rows of x, in two batches that have both signs: `labels` are behind it.
InputFn rows_with(const std::vector<FieldName>& names, const std::vector<at::Tensor>& labels,
                  int repeat = 1) {
  data::Example fields{at::tensor({-2., 0.5, -1.5, 1., -1., 1.5, -0.5, 2.}, at::kFloat)};
  for (const at::Tensor& label : labels) fields.fields.push_back(label);
  return [=](const InputContext&) {
    return Input(data::Dataset::from_tensor_slices(fields).repeat(repeat).batch(4), {{"x"}}, names);
  };
}

at::Tensor positive() { return at::tensor({0, 1, 0, 1, 0, 1, 0, 1}, at::kLong); }

std::set<std::string> names_of(const Evaluation& evaluation) {
  std::set<std::string> names;
  for (const auto& [name, value] : evaluation.metrics) names.insert(name);
  return names;
}

bool has(const Estimator& estimator, const std::string& name) {
  const std::vector<std::string> names = estimator.variable_names();
  return std::ranges::find(names, name) != names.end();
}

TEST(CannedTest, RefusesWhatTensorFlowRefuses) {
  expect_error([] { LinearClassifier({.feature_columns = x_alone(), .n_classes = 1}); },
               "[estimator] n_classes must be >= 2: 1.");
  expect_error_containing(
      [] {
        LinearClassifier({.feature_columns = x_alone(), .n_classes = 3, .label_vocabulary = {"a"}});
      },
      ErrorCode::kInvalidArgument, "\"label_vocabulary\" does not have \"n_classes\" items.");
  expect_error_containing(
      [] { LinearRegressor({.feature_columns = x_alone(), .label_dimension = 0}); },
      ErrorCode::kInvalidArgument, "Invalid label_dimension 0.");
  expect_error([] { DNNLinearCombinedRegressor{{}}; },
               "[estimator] Either linear_feature_columns or dnn_feature_columns must be defined.");
  expect_error(
      [] { DNNLinearCombinedRegressor({.dnn_feature_columns = x_alone()}); },
      "[estimator] dnn_hidden_units must be defined when dnn_feature_columns is specified.");
  expect_error(
      [] { DNNRegressor({.hidden_units = {2}, .feature_columns = x_alone(), .optimizer = "sgd"}); },
      "[estimator] optimizer: Unsupported optimizer name: sgd. Supported names are: Adagrad, "
      "Adam, Ftrl, RMSProp, SGD");
  expect_error([] { LinearRegressor({.feature_columns = {}}); },
               "[estimator] feature_columns must not be empty; expected one column or more");
}

TEST(CannedTest, ANetworkWithDropoutAndBatchNormLearns) {
  const test::TempFolder folder;
  DNNClassifier model({.hidden_units = {8},
                       .feature_columns = x_alone(),
                       .optimizer = []() -> optimizers::AnyOptimizer {
                         return optimizers::Adam({.learning_rate = 0.05});
                       },
                       .dropout = 0.1,
                       .batch_norm = true,
                       .model_dir = folder.path(),
                       .config = RunConfig({.tf_random_seed = 1})});
  model.train(rows_with({{"label"}}, {positive()}, 60));
  EXPECT_TRUE(has(model, "dnn/hiddenlayer_0/batchnorm_0/gamma"));
  EXPECT_TRUE(has(model, "dnn/hiddenlayer_0/batchnorm_0/moving_mean"));
  const Evaluation evaluation = model.evaluate(rows_with({{"label"}}, {positive()}));
  EXPECT_GT(evaluation.at("auc"), 0.99);
}

TEST(CannedTest, BothPartsOfACombinedModelAreTrainedByTheirOptimizers) {
  const test::TempFolder folder;
  DNNLinearCombinedClassifier model(
      {.linear_feature_columns = {fc::bucketized_column(fc::numeric_column("x"), {0})},
       .linear_optimizer = "SGD",
       .dnn_feature_columns = x_alone(),
       .dnn_optimizer = "SGD",
       .dnn_hidden_units = {4},
       .model_dir = folder.path(),
       .config = RunConfig({.tf_random_seed = 1})});
  model.train(rows_with({{"label"}}, {positive()}, 30));
  const at::Tensor wide = model.variable_value("linear/linear_model/x_bucketized/weights");
  EXPECT_LT(wide[0].item<double>(), 0);
  EXPECT_GT(wide[1].item<double>(), 0);
  EXPECT_EQ(model.variable_value("global_step").item<int64_t>(), 60);
}

TEST(CannedTest, SeveralHeadsHaveMetricsOfTheirNames) {
  const test::TempFolder folder;
  const Head head = multi_head({binary_class_head({.thresholds = {0.25}, .name = "sign"}),
                                poisson_regression_head({.name = "count"})});
  LinearEstimator model(head, {.feature_columns = x_alone(), .model_dir = folder.path()});
  const at::Tensor counts = at::tensor({0., 2., 0., 3., 1., 4., 1., 7.}, at::kFloat);
  const std::vector<FieldName> names = {{"sign"}, {"count"}};
  model.train(rows_with(names, {positive(), counts}, 20));
  const Evaluation evaluation = model.evaluate(rows_with(names, {positive(), counts}));
  const auto got = names_of(evaluation);
  for (const char* name :
       {"loss", "loss/sign", "loss/count", "accuracy/sign", "auc/sign", "average_loss/count",
        "accuracy/positive_threshold_0.25/sign", "prediction/mean/count"}) {
    EXPECT_TRUE(got.contains(name)) << name;
  }
  EXPECT_NEAR(evaluation.at("loss"), evaluation.at("loss/sign") + evaluation.at("loss/count"),
              1e-5);
  int rows = 0;
  for (const Features& row : model.predict(rows_with(names, {positive(), counts}))) {
    EXPECT_TRUE(row.contains("sign/class_ids") && row.contains("count/predictions"));
    ++rows;
  }
  EXPECT_EQ(rows, 8);
}

TEST(CannedTest, MultiLabelMetricsAreOfAllAndOfChosenClasses) {
  const test::TempFolder folder;
  const Head head = multi_label_head(
      2, {.label_vocabulary = {"low", "high"}, .classes_for_class_based_metrics = {1}});
  BaselineEstimator model(head, {.model_dir = folder.path()});
  const at::Tensor labels = at::stack({positive(), 1 - positive()}, 1);
  model.train(rows_with({{"label"}}, {labels}, 5));
  const auto got = names_of(model.evaluate(rows_with({{"label"}}, {labels})));
  EXPECT_EQ(got, (std::set<std::string>{"loss", "average_loss", "auc", "auc_precision_recall",
                                        "probability_mean/high", "auc/high",
                                        "auc_precision_recall/high"}));
}

}  // namespace
}  // namespace strata::estimator
