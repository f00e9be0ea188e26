// The networks of keras.io's examples, as real Keras computes and trains them in float64.
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "keras/golden_models.h"
#include "keras/hashed_numbers.h"
#include "strata/keras/printing.h"
#include "strata/keras/saving.h"
#include "strata/optim/optimizers.h"
#include "support/temp_folder.h"

namespace strata::keras {
namespace {

using golden::compute;
using golden::golden_file;
using test::hashed_numbers;

constexpr double kTolerance = 1e-6;
// As tests/golden/keras_examples.py has them.
constexpr int64_t kBatch = 3;
constexpr int64_t kWords = 11;
constexpr int64_t kUnknownSize = 6;
constexpr size_t kFirstInput = 1000;
constexpr size_t kFirstTarget = 2000;

const Json& golden_examples() {
  static const Json examples = Json::parse(read_file(golden_file("keras_examples.json")));
  return examples.at("examples");
}

double itself(double u) { return u; }

void fill(const Model& model) {
  const std::vector<Weight> weights = model->weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    Variable variable = weights[i].variable;
    const std::vector<int64_t> shape = variable.sizes().vec();
    double limit = 0.1;
    if (shape.size() > 1) {
      int64_t window = 1;
      for (size_t axis = 0; axis + 1 < shape.size(); ++axis) window *= shape[axis];
      limit = std::sqrt(3 / static_cast<double>(window));
    }
    const bool is_scale = weights[i].name == "gamma" || weights[i].name.ends_with("variance");
    variable.assign(
        hashed_numbers(i, shape, [&](double u) { return is_scale ? 1 + 0.3 * u : limit * u; }));
  }
}

/// Words from 0 on, bools of which a row has one at least, and numbers.
Tensors inputs_of(const Model& model) {
  Tensors inputs;
  for (const SymbolicTensor& input : model.inputs()) {
    std::vector<int64_t> shape = {kBatch};
    for (size_t axis = 1; axis < input.shape().size(); ++axis) {
      const int64_t size = input.shape()[axis];
      shape.push_back(size == kNone ? kUnknownSize : size);
    }
    at::Tensor values = hashed_numbers(kFirstInput + inputs.size(), shape, itself);
    if (input.dtype() == at::kBool) {
      values = values > -0.3;
      values.select(-1, 0).fill_(true);
    } else if (input.dtype() == at::kInt) {
      values = (values.abs() * kWords).clamp_max(kWords - 1).to(at::kInt);
    }
    inputs.push_back(values);
  }
  return inputs;
}

void expect_outputs(const Tensors& outputs, const Json& golden, const char* which) {
  const auto& expected = golden.at(which).as_array();
  ASSERT_EQ(outputs.size(), expected.size()) << which;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::vector<int64_t> shape;
    for (const Json& size : golden.at("shapes").as_array()[i].as_array()) {
      shape.push_back(size.as_int());
    }
    ASSERT_EQ(outputs[i].sizes().vec(), shape) << which << ", output " << i;
    EXPECT_EQ(outputs[i].scalar_type(), at::kDouble) << which << ", output " << i;
    const at::Tensor flat = outputs[i].contiguous().view({-1});
    const auto kept = static_cast<int64_t>(expected[i].as_array().size());
    const int64_t step = (flat.numel() + kept - 1) / kept;
    double scale = 1;
    for (const Json& each : expected[i].as_array()) {
      scale = std::max(scale, std::abs(each.as_double()));
    }
    for (int64_t k = 0; k < kept; ++k) {
      EXPECT_NEAR(flat[k * step].item<double>(),
                  expected[i].as_array()[static_cast<size_t>(k)].as_double(), kTolerance * scale)
          << which << ", output " << i << ", element " << k * step;
    }
  }
}

class GoldenExample : public testing::TestWithParam<size_t> {
 protected:
  const Json& golden() const { return golden_examples().as_array()[GetParam()]; }

  /// With the script's weights.
  Model make() const {
    clear_session();
    Model model = model_from_config(golden().at("config"));
    fill(model);
    return model;
  }
};

TEST_P(GoldenExample, PredictsAndTrainsAsInKeras) {
  const Model model = make();
  const std::vector<Weight> weights = model->weights();
  const auto& shapes = golden().at("weights").as_array();
  ASSERT_EQ(weights.size(), shapes.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    std::vector<int64_t> shape;
    for (const Json& size : shapes[i].as_array()) shape.push_back(size.as_int());
    ASSERT_EQ(weights[i].variable.sizes().vec(), shape) << weights[i].name;
  }
  const Tensors inputs = inputs_of(model);
  expect_outputs(compute(model, inputs), golden(), "predicts");

  std::vector<at::Tensor> fields = inputs;
  for (const Json& shape : golden().at("shapes").as_array()) {
    std::vector<int64_t> sizes;
    for (const Json& size : shape.as_array()) sizes.push_back(size.as_int());
    fields.push_back(hashed_numbers(kFirstTarget + fields.size() - inputs.size(), sizes, itself));
  }
  model.compile({.optimizer = optimizers::SGD(
                     {.learning_rate = golden().at("learning_rate").as_double(), .momentum = 0.9}),
                 .loss = "mse"});
  for (const Json& loss : golden().at("losses").as_array()) {
    const double expected = loss.as_double();
    EXPECT_NEAR(model.train_on_batch(data::Example(fields)).at("loss"), expected,
                kTolerance * std::abs(expected));
  }
  expect_outputs(compute(model, inputs), golden(), "then_predicts");
}

TEST_P(GoldenExample, GoesThroughAFile) {
  const strata::test::TempFolder folder;
  const std::string path = join_path(folder.path(), "example.keras");
  const Model model = make();
  const Tensors inputs = inputs_of(model);
  save_model(model, path);
  const Tensors expected = compute(model, inputs);
  const Tensors got = compute(load_model(path), inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << "output " << i;
}

std::vector<size_t> all_examples() {
  std::vector<size_t> all(golden_examples().as_array().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

INSTANTIATE_TEST_SUITE_P(KerasIo, GoldenExample, testing::ValuesIn(all_examples()),
                         [](const testing::TestParamInfo<size_t>& info) {
                           return golden_examples().as_array()[info.param].at("name").as_string();
                         });

}  // namespace
}  // namespace strata::keras
