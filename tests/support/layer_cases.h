#pragma once

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "keras/call_context.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layer_registry.h"
#include "support/source_path.h"
#include "support/test_devices.h"

/// The cases of tests/golden/keras_layers_<family>.json: Keras's layers, their inputs and what they
/// gave.
namespace strata::test {

using keras::Layer;
using keras::LayerImpl;
using keras::Shape;
using keras::Tensors;
using keras::Weight;

inline std::vector<std::string> layer_families() {
  std::vector<std::string> names;
  const std::filesystem::path folder =
      std::filesystem::path(source_path("tests/golden/README.md")).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string prefix = "keras_layers_", suffix = ".json";
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    names.push_back(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline Json read_layer_family(const std::string& family) {
  std::ifstream file(source_path("tests/golden/keras_layers_" + family + ".json"));
  std::stringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

/// Whether a step with the layer can be sent to a server, or compiled. MelSpectrogram's Fourier
/// transform has complex numbers, which neither has.
inline bool runs_elsewhere(const Json& test) {
  return test.at("layer").at("class_name").as_string() != "MelSpectrogram";
}

inline at::Device golden_device() {
  static const at::Device device = find_device(test_devices(1)[0]).physical;
  return device;
}

inline at::Tensor tensor(const Json& json) {
  const std::string& dtype = json.at("dtype").as_string();
  const at::ScalarType type = dtype == "float32"    ? at::kFloat
                              : dtype == "float64"  ? at::kDouble
                              : dtype == "bfloat16" ? at::kBFloat16
                              : dtype == "float16"  ? at::kHalf
                              : dtype == "bool"     ? at::kBool
                              : dtype == "uint8"    ? at::kByte
                                                    : at::kLong;
  std::vector<int64_t> shape;
  keras::from_config(json.at("shape"), shape);
  std::vector<double> data;
  for (const Json& each : json.at("data").as_array()) {
    data.push_back(each.is_bool() ? static_cast<double>(each.as_bool()) : each.as_double());
  }
  return at::tensor(data, at::kDouble).reshape(shape).to(type).to(golden_device());
}

inline Tensors tensors(const Json* list) {
  Tensors all;
  if (list == nullptr || list->is_null()) return all;
  for (const Json& each : list->as_array()) {
    all.push_back(each.is_null() ? at::Tensor() : tensor(each));
  }
  return all;
}

/// A nested list of 0 and 1.
inline at::Tensor mask(const Json& json) {
  if (json.is_null()) return {};
  Tensors rows;
  for (const Json& each : json.as_array()) {
    rows.push_back(each.is_array()
                       ? mask(each)
                       : at::scalar_tensor(each.as_int(), at::kBool).to(golden_device()));
  }
  return at::stack(rows);
}

inline Tensors masks(const Json* list) {
  Tensors all;
  if (list == nullptr || list->is_null()) return all;
  for (const Json& each : list->as_array()) all.push_back(mask(each));
  return all;
}

inline std::vector<Shape> shapes(const Json& list) {
  std::vector<Shape> all;
  for (const Json& each : list.as_array()) {
    Shape shape;
    for (const Json& size : each.as_array()) {
      shape.push_back(size.is_null() ? keras::kNone : size.as_int());
    }
    all.push_back(shape);
  }
  return all;
}

inline std::vector<Shape> shapes_with_free_batch(const Tensors& inputs) {
  std::vector<Shape> all;
  for (const at::Tensor& x : inputs) {
    all.push_back(x.sizes().vec());
    all.back()[0] = keras::kNone;
  }
  return all;
}

inline void set_weights(const LayerImpl& layer, const Tensors& values) {
  const std::vector<Weight> weights = layer.weights();
  ASSERT_EQ(weights.size(), values.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    ASSERT_EQ(weights[i].variable.sizes(), values[i].sizes()) << weights[i].name;
    EXPECT_EQ(weights[i].variable.dtype(), values[i].scalar_type()) << weights[i].name;
    Variable(weights[i].variable).assign(values[i].to(weights[i].variable.dtype()));
  }
}

struct LayerResult {
  LayerImpl::Outputs outputs;
  at::Tensor loss = {};  // undefined: none
};

inline LayerResult run_layer(const Layer& layer, const Tensors& inputs, const Json& test,
                             const Tensors& masks) {
  std::vector<at::Tensor> losses;
  const keras::detail::CallContextGuard context({.losses = &losses});
  keras::Call call{
      .training = test.at("training").as_bool(), .masks = masks, .options = test.at("call")};
  LayerResult result{.outputs = (*layer)(inputs, call), .loss = {}};
  if (const at::Tensor penalty = layer->regularization_loss(); penalty.defined()) {
    losses.push_back(penalty);
  }
  for (const at::Tensor& loss : losses) {
    result.loss = result.loss.defined() ? result.loss + loss : loss;
  }
  return result;
}

}  // namespace strata::test
