// Canned estimators against what tensorflow_estimator 2.15.0 printed: losses, variables, slots,
// metrics, predictions.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "estimator/golden_columns.h"
#include "strata/estimator/canned.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layers/core.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata::estimator {
namespace {

class LossRecorder final : public SessionRunHook {
 public:
  void after_run(Session&, const StepResults& results) override {
    losses.push_back(results.loss());
  }
  std::vector<double> losses;
};

OptimizerChoice optimizer_of(const json& given) {
  if (given.is_string()) return given.get<std::string>();
  const double rate = given["learning_rate"];
  EXPECT_EQ(given["class"], "Adam");
  return [rate]() -> optimizers::AnyOptimizer { return optimizers::Adam({.learning_rate = rate}); };
}

template <typename Options>
Options common_options(const json& given, const std::string& folder, Strategy* strategy) {
  Options options;
  options.model_dir = folder;
  options.config = RunConfig({.train_distribute = strategy});
  if (given.contains("optimizer")) options.optimizer = optimizer_of(given["optimizer"]);
  if constexpr (requires { options.feature_columns; }) {
    options.feature_columns = golden_columns(given["feature_columns"]);
  }
  if constexpr (requires { options.hidden_units; }) {
    options.hidden_units = given["hidden_units"].get<std::vector<int64_t>>();
  }
  if constexpr (requires { options.n_classes; }) {
    options.n_classes = given.value("n_classes", 2);
    options.label_vocabulary = given.value("label_vocabulary", std::vector<std::string>());
  } else {
    options.label_dimension = given.value("label_dimension", 1);
  }
  if (given.contains("weight_column"))
    options.weight_column = given["weight_column"].get<std::string>();
  options.loss_reduction = given.value("loss_reduction", "sum_over_batch_size");
  return options;
}

Estimator canned(const json& given, const std::string& folder, Strategy* strategy) {
  const std::string type = given["class"];
  if (type == "LinearClassifier") {
    return LinearClassifier(common_options<LinearClassifierOptions>(given, folder, strategy));
  }
  if (type == "LinearRegressor") {
    return LinearRegressor(common_options<LinearRegressorOptions>(given, folder, strategy));
  }
  if (type == "DNNClassifier") {
    return DNNClassifier(common_options<DNNClassifierOptions>(given, folder, strategy));
  }
  if (type == "DNNRegressor") {
    return DNNRegressor(common_options<DNNRegressorOptions>(given, folder, strategy));
  }
  if (type == "BaselineClassifier") {
    return BaselineClassifier(common_options<BaselineClassifierOptions>(given, folder, strategy));
  }
  EXPECT_EQ(type, "DNNLinearCombinedRegressor");
  DNNLinearCombinedRegressorOptions options;
  options.model_dir = folder;
  options.linear_feature_columns = golden_columns(given["linear_feature_columns"]);
  options.dnn_feature_columns = golden_columns(given["dnn_feature_columns"]);
  options.dnn_hidden_units = given["dnn_hidden_units"].get<std::vector<int64_t>>();
  return DNNLinearCombinedRegressor(options);
}

at::Tensor shaped_numbers(const json& given) {
  return numbers(given).reshape(given["shape"].get<std::vector<int64_t>>());
}

/// The same estimator, whose training begins with the golden case's variables.
Estimator with_initial(const Estimator& estimator, const json& initial) {
  const ModelFn inner = estimator.model_fn();
  const ModelFn model_fn = [inner, initial](const Features& features, const Labels& labels,
                                            Mode mode, ModelContext& context) {
    EstimatorSpec spec = inner(features, labels, mode, context);
    if (context.building() && mode == Mode::kTrain) {
      for (const auto& [name, given] : initial.items()) {
        const size_t slash = name.rfind('/');
        const std::string last = name.substr(slash + 1);
        if (last != "kernel" && last != "bias") {
          context.variable(name, nullptr).assign(shaped_numbers(given));
          continue;
        }
        const auto layer = context.layer<layers::Dense>(name.substr(0, slash), 1);
        for (const keras::Weight& weight : layer->own_weights()) {
          if (weight.name == last) Variable(weight.variable).assign(shaped_numbers(given));
        }
      }
    }
    return spec;
  };
  return Estimator(model_fn, {.model_dir = estimator.model_dir(), .config = estimator.config()});
}

/// All features, then the labels.
InputFn input_of(const json& given, int64_t batch, bool repeat) {
  data::Example fields;
  std::vector<FieldName> names;
  for (const auto& [name, feature] : golden_features(given["features"])) {
    fields.fields.push_back(feature.values);
    names.push_back({.name = name, .is_text = feature.is_text});
  }
  const Feature labels = golden_feature(given["labels"]);
  fields.fields.push_back(labels.values);
  return [=](const InputContext&) {
    data::Dataset rows = data::Dataset::from_tensor_slices(fields);
    if (repeat) rows = rows.repeat();
    return Input(rows.batch(batch), names, {{.name = "label", .is_text = labels.is_text}});
  };
}

/// TensorFlow keeps hyperparameters and counters as variables; here they are the optimizer's
/// options.
bool is_hyperparameter(const std::string& name) {
  static const std::set<std::string> names = {"beta",
                                              "decay",
                                              "iter",
                                              "beta_1",
                                              "beta_2",
                                              "learning_rate",
                                              "learning_rate_power",
                                              "l1_regularization_strength",
                                              "l2_regularization_strength"};
  const size_t slash = name.rfind('/');
  return name.starts_with("training/") && std::count(name.begin(), name.end(), '/') == 2 &&
         (names.contains(name.substr(slash + 1)) || name == "training/SGD/momentum");
}

/// Slots are `OPTIMIZER/VARIABLE/SLOT`, and Adam's have Keras 3's names.
std::string name_here(std::string name) {
  constexpr std::string_view kGroup = "training/";
  if (!name.starts_with(kGroup)) return name;
  name.erase(0, kGroup.size());
  if (name.ends_with("/m")) name.replace(name.size() - 1, 1, "momentum");
  if (name.ends_with("/v")) name.replace(name.size() - 1, 1, "velocity");
  return name;
}

void expect_predictions(const std::vector<Features>& batches, const json& wanted) {
  for (const auto& [key, given] : wanted.items()) {
    SCOPED_TRACE(key);
    if (given["dtype"] == "string") {
      std::vector<std::string> got;
      for (const Features& batch : batches) {
        const Feature& feature = batch.at(key);
        for (int64_t row = 0; row < feature.values.size(0); ++row) {
          for (int64_t i = 0; i < feature.values.size(1); ++i)
            got.push_back(text_at(feature, row, i));
        }
      }
      EXPECT_EQ(got, texts(given));
      continue;
    }
    std::vector<at::Tensor> parts;
    for (const Features& batch : batches) parts.push_back(batch.at(key).values);
    const at::Tensor got = at::cat(parts);
    EXPECT_EQ(got.scalar_type(), shaped_numbers(given).scalar_type());
    EXPECT_TRUE(is_near(got, shaped_numbers(given))) << got << shaped_numbers(given);
  }
}

void expect_case(const json& given) {
  SCOPED_TRACE(given["name"].get<std::string>());
  const test::TempFolder folder;
  const int replicas = given.value("replicas", 1);
  std::optional<MirroredStrategy> strategy;
  if (replicas > 1) {
    set_logical_devices("cpu", 2);
    strategy.emplace(MirroredOptions{.devices = cpus(2)});
  }
  Estimator estimator = with_initial(
      canned(given["estimator"], folder.path(), strategy ? &*strategy : nullptr), given["initial"]);

  const auto recorder = std::make_shared<LossRecorder>();
  estimator.train(input_of(given, given["batch"], true),
                  {.hooks = {recorder}, .steps = given["steps"].get<int64_t>()});
  const json& out = given["out"];
  ASSERT_EQ(recorder->losses.size(), out["losses"].size());
  // `differs`: TensorFlow sums the replicas' mean losses; here they are one mean.
  const double divisor = given.contains("differs") ? replicas : 1;
  for (size_t i = 0; i < recorder->losses.size(); ++i) {
    const double wanted = out["losses"][i].get<double>() / divisor;
    EXPECT_NEAR(recorder->losses[i], wanted, 1e-5 * std::abs(wanted) + 1e-7) << i;
  }

  std::set<std::string> known = {};
  for (const std::string& name : estimator.variable_names()) known.insert(name);
  for (const auto& [name, variable] : out["variables"].items()) {
    if (is_hyperparameter(name)) continue;
    ASSERT_TRUE(known.contains(name_here(name))) << name;
    const at::Tensor got = estimator.variable_value(name_here(name));
    EXPECT_TRUE(is_near(got, shaped_numbers(variable))) << name << got << shaped_numbers(variable);
  }

  const Evaluation evaluation = estimator.evaluate(input_of(given, given["eval_batch"], false));
  for (const auto& [name, value] : out["evaluate"].items()) {
    if (name == "global_step") {
      EXPECT_EQ(evaluation.global_step, value.get<double>());
      continue;
    }
    const double wanted = value;
    EXPECT_NEAR(evaluation.at(name), wanted, 1e-5 * std::abs(wanted) + 1e-6) << name;
  }
  EXPECT_EQ(evaluation.metrics.size() + 1, out["evaluate"].size());

  std::vector<Features> batches;
  Predictions predictions =
      estimator.predict(input_of(given, 3, false), {.yield_single_examples = false});
  while (auto batch = predictions.next()) batches.push_back(std::move(*batch));
  expect_predictions(batches, out["predictions"]);
}

TEST(CannedGoldenTest, TrainEvaluateAndPredictLikeTensorFlow) {
  int compared = 0;
  for (const json& given : golden_cases()) {
    if (given["kind"] != "train") continue;
    expect_case(given);
    ++compared;
  }
  EXPECT_EQ(compared, 9);
}

}  // namespace
}  // namespace strata::estimator
