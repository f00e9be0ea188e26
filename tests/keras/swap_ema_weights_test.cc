// SwapEMAWeights against tests/golden/keras_swap_ema.json, on one device and on replicas.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "keras/training/training_run.h"
#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/dtype_policy.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/sequential.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/strategy.h"
#include "support/expect_error.h"
#include "support/replicas.h"
#include "support/source_path.h"

namespace strata::keras {
namespace {

using data::Dataset;

const Json& swaps() {
  static const Json json =
      Json::parse(read_file(test::source_path("tests/golden/keras_swap_ema.json")));
  return json;
}

at::Tensor column(const Json& json) {
  std::vector<double> values;
  for (const Json& value : json.as_array()) values.push_back(value.as_double());
  return at::tensor(values, at::kDouble).unsqueeze(1);
}

std::vector<double> numbers_of(const Json& json) {
  std::vector<double> values;
  for (const Json& value : json.as_array()) values.push_back(value.as_double());
  return values;
}

/// Restores the floating dtype of layers.
class Float64 {
 public:
  Float64() { set_dtype_policy("float64"); }
  ~Float64() { set_dtype_policy("float32"); }
};

std::vector<double> values_of(const Model& model) {
  std::vector<double> values;
  for (const Variable& each : model->trainable_variables()) {
    values.push_back(each.value().item<double>());
  }
  return values;
}

/// Notes the weights as a callback behind SwapEMAWeights sees them.
class Watch : public callbacks::Callback {
 public:
  void on_epoch_end(int64_t, Logs&) override { seen.push_back(values_of(run().model())); }
  std::vector<std::vector<double>> seen;
};

Model compiled_line(optimizers::AnyOptimizer optimizer) {
  Sequential model(Input({1}), {layers::Dense(1)});
  const std::vector<Variable> variables = Model(model)->trainable_variables();
  Variable(variables.at(0)).assign(at::full({1, 1}, 0.25, at::kDouble));
  Variable(variables.at(1)).assign(at::full({1}, 0.125, at::kDouble));
  model.compile({.optimizer = std::move(optimizer), .loss = "mse"});
  return model;
}

optimizers::SGD averaging() {
  return optimizers::SGD(
      {.learning_rate = 0.25, .momentum = 0.5, .use_ema = true, .ema_momentum = 0.75});
}

void expect_close(const std::vector<double>& got, const std::vector<double>& wanted,
                  const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << what << " " << i;
}

void expect_kerass_swaps(Strategy& strategy) {
  const Float64 float64;
  const Dataset rows =
      Dataset::from_tensor_slices({column(swaps().at("x")), column(swaps().at("y"))});
  const at::Tensor x = column(swaps().at("x")), y = column(swaps().at("y"));
  for (const Json& test : swaps().at("cases").as_array()) {
    SCOPED_TRACE(test.dump());
    const Model model = strategy.scope([] { return compiled_line(averaging()); });
    const auto watch = std::make_shared<Watch>();
    FitOptions options{
        .epochs = static_cast<int>(swaps().at("epochs").as_int()),
        .callbacks = {callbacks::SwapEMAWeights(test.at("swap_on_epoch").as_bool()), watch},
        .verbose = 0};
    const std::vector<double> val_loss = numbers_of(test.at("val_loss"));
    const int64_t batch = swaps().at("batch").as_int();
    if (!val_loss.empty()) {
      options.validation_data =
          Dataset::from_tensor_slices({x.slice(0, 0, 4), y.slice(0, 0, 4)}).batch(batch);
    }
    const History history = model.fit(rows.batch(batch), options);
    if (!val_loss.empty()) expect_close(history["val_loss"], val_loss, "val_loss");
    const auto& seen = test.at("seen").as_array();
    ASSERT_EQ(watch->seen.size(), seen.size());
    for (size_t i = 0; i < seen.size(); ++i)
      expect_close(watch->seen[i], numbers_of(seen[i]), "seen");
    const at::Tensor predicted = model.predict(
        at::ones({1, 1}, at::kDouble), {.callbacks = {callbacks::SwapEMAWeights()}, .verbose = 0});
    EXPECT_NEAR(predicted.item<double>(), test.at("predicted").as_double(), 1e-6);
    expect_close(values_of(model), numbers_of(test.at("weights")), "weights");
    std::vector<double> averages;
    for (const auto& [name, slot] : model.optimizer().slots()) {
      if (name.ends_with("/average")) averages.push_back(slot.item<double>());
    }
    expect_close(averages, numbers_of(test.at("averages")), "averages");
  }
}

TEST(SwapEMAWeightsTest, ShowsWhatKerasShows) { expect_kerass_swaps(default_strategy()); }

TEST(SwapEMAWeightsTest, ShowsItOnReplicas) {
  set_logical_devices("cpu", 2);
  MirroredStrategy shared({.devices = cpus(2), .replicas = {.threads_per_replica = 1}});
  expect_kerass_swaps(shared);
  MirroredStrategy apart(
      {.devices = cpus(2), .replicas = {.threads_per_replica = 1, .share_storage = false}});
  expect_kerass_swaps(apart);
}

TEST(SwapEMAWeightsTest, ChangesNothingBeforeTheFirstStep) {
  const Float64 float64;
  const Model model = compiled_line(averaging());
  const Dataset one =
      Dataset::from_tensor_slices({at::ones({1, 1}, at::kDouble), at::zeros({1, 1}, at::kDouble)})
          .batch(1);
  const Logs logs = model.evaluate(one, {.callbacks = {callbacks::SwapEMAWeights()}, .verbose = 0});
  EXPECT_NEAR(logs.at("loss"), 0.375 * 0.375, 1e-12);
}

TEST(SwapEMAWeightsTest, FindsTheAveragesInsideALossScale) {
  const Float64 float64;
  const Model model = compiled_line(optimizers::LossScaleOptimizer(averaging()));
  const at::Tensor x = at::ones({4, 1}, at::kDouble);
  model.fit(Dataset::from_tensor_slices({x, x}).batch(2), {.epochs = 1, .verbose = 0});
  const std::vector<double> weights = values_of(model);
  const at::Tensor with =
      model.predict(x.slice(0, 0, 1), {.callbacks = {callbacks::SwapEMAWeights()}, .verbose = 0});
  // `fit` has given the weights the averages at its end.
  EXPECT_NEAR(with.item<double>(), weights[0] + weights[1], 1e-12);
  EXPECT_EQ(values_of(model), weights);
}

TEST(SwapEMAWeightsTest, WantsAverages) {
  const Float64 float64;
  const Model model = compiled_line(optimizers::SGD({.learning_rate = 0.1}));
  const at::Tensor x = at::ones({4, 1}, at::kDouble);
  expect_error_containing(
      [&] {
        model.fit(Dataset::from_tensor_slices({x, x}).batch(2),
                  {.validation_data = Dataset::from_tensor_slices({x, x}).batch(2),
                   .callbacks = {callbacks::SwapEMAWeights()},
                   .verbose = 0});
      },
      ErrorCode::kInvalidArgument,
      "[callbacks] SwapEMAWeights: got the optimizer sgd, which keeps no averages; make it with "
      ".use_ema = true");
}

}  // namespace
}  // namespace strata::keras
