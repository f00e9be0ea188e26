#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "keras/graph/input_layer.h"
#include "strata/core/file_system.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/model.h"
#include "support/source_path.h"

// What tests/golden/make_keras_models.py wrote, and comparing with it.
namespace strata::keras::golden {

/// Of the model "registered".
class ScaleImpl final : public UnaryLayerImpl {
 public:
  explicit ScaleImpl(LayerOptions options) : UnaryLayerImpl(std::move(options)) {}
  std::string_view class_name() const override { return "Scale"; }

 private:
  void describe(ConfigWriter&) const override {}
  void build(const Shape& input) override {
    scale_ = add_weight("scale", {input.back()}, {.initializer = "ones"});
  }
  at::Tensor call(const at::Tensor& x, const Call&) override { return x * scale_->value(); }

  std::optional<Variable> scale_;
};

inline void register_golden_classes() {
  // Quoted in docs/keras_files.md.
  keras::register_layer("mine>Scale", [](const Json& config) {
    return keras::make_layer<ScaleImpl>(keras::LayerOptions{.name = config.at("name").as_string()});
  });
  keras::register_operation(
      "mine>Times", [](const keras::Tensors& x, const keras::OperationArguments& arguments) {
        return keras::Tensors{x[0] * arguments.config.at("factor").as_double()};
      });
}

inline const Json& golden_models() {
  static const Json all = [] {
    register_golden_classes();
    return Json::parse(read_file(strata::test::source_path("tests/golden/keras_models.json")));
  }();
  return all;
}

inline const Json& golden_model(const std::string& name) {
  const auto& all = golden_models().at("models").as_array();
  const auto found = std::ranges::find_if(
      all, [&](const Json& each) { return each.at("name").as_string() == name; });
  if (found == all.end()) throw Error(ErrorCode::kNotFound, "no golden model " + name);
  return *found;
}

/// 1e-5, or what a model has that computes in 16 bits.
inline double tolerance_of(const Json& golden) {
  const Json* tolerance = golden.find("tolerance");
  return tolerance == nullptr ? 1e-5 : tolerance->as_double();
}

inline std::string golden_file(const std::string& name) {
  return strata::test::source_path("tests/golden/" + name);
}

inline at::Tensor tensor_of(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json& size : json.at("shape").as_array()) shape.push_back(size.as_int());
  std::vector<double> data;
  for (const Json& value : json.at("data").as_array()) {
    data.push_back(value.is_bool() ? value.as_bool() : value.as_double());
  }
  return at::tensor(data, at::kDouble)
      .reshape(shape)
      .to(detail::dtype_of_name(json.at("dtype").as_string()));
}

inline Tensors tensors_of(const Json& list) {
  Tensors tensors;
  for (const Json& each : list.as_array()) tensors.push_back(tensor_of(each));
  return tensors;
}

inline Tensors compute(const Model& model, const Tensors& inputs) {
  const at::NoGradGuard no_grad;
  return model.call(inputs, Call{});
}

inline void expect_close(const Tensors& got, const Tensors& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), expected[i].sizes()) << what << ", output " << i;
    EXPECT_EQ(got[i].scalar_type(), expected[i].scalar_type()) << what << ", output " << i;
    const at::Tensor b = expected[i].to(at::kDouble);
    const double scale = std::max(1.0, b.abs().max().item<double>());
    const double error = (got[i].to(at::kDouble) - b).abs().max().item<double>() / scale;
    EXPECT_LE(error, tolerance) << what << ", output " << i;
  }
}

}  // namespace strata::keras::golden
