// Random models and losses (tests/golden/keras_sweep.py) as real Keras computes and trains them in
// float64. STRATA_SWEEP names another file that the script wrote.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "keras/golden_models.h"
#include "strata/keras/losses.h"
#include "strata/keras/saving.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"
#include "support/test_devices.h"

namespace strata::keras {
namespace {

using golden::compute;
using golden::expect_close;
using golden::golden_file;
using golden::tensor_of;
using golden::tensors_of;

constexpr double kTolerance = 1e-6;

const Json& sweep() {
  static const Json all = [] {
    const char* other = std::getenv("STRATA_SWEEP");
    return Json::parse(read_file(other != nullptr ? other : golden_file("keras_sweep.json")));
  }();
  return all;
}

void set_weights(const Model& model, const Json& golden) {
  const std::vector<Weight> weights = model->weights();
  const Tensors values = tensors_of(golden);
  ASSERT_EQ(weights.size(), values.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    Variable variable = weights[i].variable;
    ASSERT_EQ(variable.sizes(), values[i].sizes()) << weights[i].name;
    variable.assign(values[i].to(variable.dtype()));
  }
}

void expect_logs(const Logs& logs, const Json& expected, size_t step) {
  ASSERT_EQ(logs.values().size(), expected.as_object().size()) << "step " << step;
  for (const auto& [name, value] : expected.as_object()) {
    EXPECT_NEAR(logs.at(name), value.as_double(),
                kTolerance * std::max(1.0, std::abs(value.as_double())))
        << name << ", step " << step;
  }
}

/// Layers whose statistics each replica takes of its own rows, as in Keras.
bool has_statistics(const Model& model) {
  return std::ranges::any_of(
      model->weights(), [](const Weight& weight) { return weight.name.starts_with("moving_"); });
}

class SweepGoldenTest : public testing::TestWithParam<int> {};

TEST_P(SweepGoldenTest, PredictsAndTrainsAsInKeras) {
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy({.devices = cpus(GetParam())});
  size_t which = 0;
  for (const Json& golden : sweep().at("models").as_array()) {
    SCOPED_TRACE(str_cat("model ", which++, ", ", golden.at("family").as_string(), ": ",
                         golden.at("config").dump()));
    clear_session();
    const Model model = strategy.scope([&] { return model_from_config(golden.at("config")); });
    if (GetParam() > 1 && has_statistics(model)) continue;
    set_weights(model, golden.at("weights"));
    const Tensors inputs = tensors_of(golden.at("inputs"));
    expect_close(compute(model, inputs), tensors_of(golden.at("predicts")), kTolerance, "predicts");

    Tensors fields = inputs;
    for (const at::Tensor& target : tensors_of(golden.at("targets"))) fields.push_back(target);
    std::vector<losses::Loss> losses;
    for (const Json& name : golden.at("losses").as_array()) losses.emplace_back(name.as_string());
    model.compile({.optimizer = optimizer_from_config(golden.at("optimizer")), .loss = losses});
    size_t step = 0;
    for (const Json& logs : golden.at("steps").as_array()) {
      expect_logs(model.train_on_batch(data::Example(fields)), logs, step++);
    }
    expect_close(compute(model, inputs), tensors_of(golden.at("then_predicts")), kTolerance,
                 "then predicts");
  }
  EXPECT_GT(which, 0U);
}

INSTANTIATE_TEST_SUITE_P(Replicas, SweepGoldenTest, testing::Values(1, 2));

TEST(SweepGoldenTest, LossesWithWeightsAndMasksAreAsInKeras) {
  size_t which = 0;
  for (const Json& golden : sweep().at("losses").as_array()) {
    SCOPED_TRACE(str_cat("loss ", which++, ": ", golden.at("config").dump()));
    losses::Loss loss;
    from_config(golden.at("config"), loss);
    EXPECT_EQ(to_config(loss), golden.at("config"));
    const auto optional = [&](const char* key) {
      const Json* found = golden.find(key);
      return found == nullptr ? at::Tensor() : tensor_of(*found);
    };
    const at::Tensor y_pred = tensor_of(golden.at("y_pred")).set_requires_grad(true);
    const at::Tensor value =
        loss(tensor_of(golden.at("y_true")), y_pred, optional("sample_weight"), optional("mask"));
    expect_close({value.detach()}, {tensor_of(golden.at("value"))}, kTolerance, "value");
    const at::Tensor gradient = torch::autograd::grad({value.sum()}, {y_pred})[0];
    expect_close({gradient}, {tensor_of(golden.at("gradient"))}, kTolerance, "gradient");
  }
  EXPECT_GT(which, 0U);
}

}  // namespace
}  // namespace strata::keras
