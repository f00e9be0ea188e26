// tests/golden/keras_operations.json: models of one operation each, which Keras wrote, compute what
// Keras computed, and describe themselves as Keras does.

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <limits>

#include "keras/graph/input_layer.h"
#include "strata/core/file_system.h"
#include "strata/keras/model.h"
#include "strata/keras/saving.h"
#include "support/source_path.h"

namespace strata::keras {
namespace {

double number_of(const Json& json) {
  if (json.is_bool()) return json.as_bool() ? 1 : 0;
  if (!json.is_string()) return json.as_double();
  if (json.as_string() == "nan") return std::numeric_limits<double>::quiet_NaN();
  return json.as_string() == "inf" ? std::numeric_limits<double>::infinity()
                                   : -std::numeric_limits<double>::infinity();
}

at::Tensor array_of(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json& size : json.at("shape").as_array()) shape.push_back(size.as_int());
  const at::ScalarType dtype = detail::dtype_of_name(json.at("dtype").as_string());
  if (at::isIntegralType(dtype, false)) {
    std::vector<int64_t> data;
    for (const Json& value : json.at("data").as_array()) data.push_back(value.as_int());
    return at::tensor(data, at::kLong).reshape(shape).to(dtype);
  }
  std::vector<double> data;
  for (const Json& value : json.at("data").as_array()) data.push_back(number_of(value));
  return at::tensor(data, at::kDouble).reshape(shape).to(dtype);
}

/// Relative to the value or, where that is smaller, to a typical one.
::testing::AssertionResult near(const at::Tensor& got, const at::Tensor& wanted, double tolerance) {
  if (got.sizes() != wanted.sizes()) {
    return ::testing::AssertionFailure() << got.sizes() << " instead of " << wanted.sizes();
  }
  if (wanted.numel() == 0) return ::testing::AssertionSuccess();
  const at::Tensor a = got.detach().to(at::kDouble), b = wanted.to(at::kDouble);
  const at::Tensor same = (a == b).logical_or(a.isnan().logical_and(b.isnan()));
  const at::Tensor finite = b.nan_to_num(0, 0, 0).abs();
  const double typical = std::max(std::sqrt(finite.square().mean().item<double>()), 1e-3);
  const at::Tensor error = ((a - b).abs() / b.abs().clamp_min(typical)).masked_fill(same, 0);
  if ((error <= tolerance).all().item<bool>()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\n" << a << "\ninstead of\n" << b;
}

Shape shape_of(const Json& json) {
  Shape shape;
  for (const Json& size : json.as_array()) shape.push_back(size.is_null() ? kNone : size.as_int());
  return shape;
}

void run_case(const Json& test) {
  Json object = Json::object();
  object.set("module", "keras.src.models.functional")
      .set("class_name", "Functional")
      .set("config", test.at("model"))
      .set("registered_name", "Functional");
  const Model model = model_from_config(object);
  Tensors inputs;
  for (const Json& each : test.at("inputs").as_array()) inputs.push_back(array_of(each));
  const bool has_gradients = test.find("gradients") != nullptr;
  for (at::Tensor& x : inputs) {
    if (has_gradients && x.is_floating_point()) x.set_requires_grad(true);
  }
  const Json* given = test.find("tolerance");
  const double tolerance = given == nullptr ? 1e-6 : given->as_double();
  const Tensors outputs = model.call(inputs, {});
  const Json::Array& wanted = test.at("outputs").as_array();
  ASSERT_EQ(outputs.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor expected = array_of(wanted[i]);
    EXPECT_TRUE(near(outputs[i], expected, tolerance)) << "output " << i;
    // Keras computes whole numbers in 32 bits or in 64, depending on JAX's configuration
    // (jax_enable_x64).
    const bool whole = at::isIntegralType(expected.scalar_type(), false);
    if (whole) {
      EXPECT_TRUE(at::isIntegralType(outputs[i].scalar_type(), false)) << "output " << i;
    } else {
      EXPECT_EQ(at::isFloatingType(outputs[i].scalar_type()),
                at::isFloatingType(expected.scalar_type()))
          << "output " << i;
    }
    EXPECT_EQ(model.outputs()[i].dtype(), outputs[i].scalar_type()) << "output " << i;
    const Shape& symbolic = model.outputs()[i].shape();
    if (const Json* shapes = test.find("shapes")) {
      EXPECT_EQ(symbolic, shape_of(shapes->as_array()[i])) << "output " << i;
    }
    ASSERT_EQ(symbolic.size(), static_cast<size_t>(expected.dim()));
    for (size_t d = 0; d < symbolic.size(); ++d) {
      EXPECT_TRUE(symbolic[d] == kNone || symbolic[d] == expected.size(static_cast<int64_t>(d)));
    }
  }
  if (has_gradients) {
    at::Tensor total;
    const Json::Array& cotangents = test.at("cotangents").as_array();
    for (size_t i = 0; i < cotangents.size(); ++i) {
      if (cotangents[i].is_null()) continue;
      const at::Tensor part = (outputs[i] * array_of(cotangents[i])).sum();
      total = total.defined() ? total + part : part;
    }
    Tensors sources, expected;
    const Json::Array& gradients = test.at("gradients").as_array();
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].is_null()) continue;
      sources.push_back(inputs[i]);
      expected.push_back(array_of(gradients[i]));
    }
    Tensors got(sources.size());
    if (total.requires_grad()) {
      got = torch::autograd::grad({total}, sources, {}, std::nullopt, false, true);
    }
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(
          near(got[i].defined() ? got[i] : at::zeros_like(expected[i]), expected[i], tolerance))
          << "gradient " << i;
    }
  }
  // Written and read again, it is the same.
  const Model again = model_from_config(model_to_config(model));
  const Tensors repeated = again.call(inputs, {});
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(near(repeated[i], outputs[i], 0)) << "output " << i << " of the model read again";
  }
}

TEST(OperationsGoldenTest, ModelsComputeWhatKerasComputes) {
  const Json golden =
      Json::parse(read_file(strata::test::source_path("tests/golden/keras_operations.json")));
  const Json::Array& cases = golden.at("cases").as_array();
  ASSERT_GT(cases.size(), 400u);
  for (const Json& test : cases) {
    SCOPED_TRACE(test.at("name").as_string());
    try {
      run_case(test);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace
}  // namespace strata::keras
