#include "strata/keras/activations.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <map>
#include <set>

#include "keras/leaves.h"
#include "support/expect_error.h"

namespace strata::activations {
namespace {

using at::Tensor;
using keras::golden::cases_with;
using keras::golden::expect_close;
using keras::golden::golden_tensor;
using keras::golden::leaves;
using keras::golden::number;
using keras::golden::same;

Tensor gradient_of(const Tensor& y, const Tensor& x) {
  return torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
}

ReluOptions relu_options(const Json& options) {
  ReluOptions result{.negative_slope = number(options, "negative_slope", 0),
                     .threshold = number(options, "threshold", 0)};
  if (const Json* value = options.find("max_value")) result.max_value = value->as_double();
  return result;
}

Tensor call(const std::string& name, const Tensor& x, const Json& o) {
  if (o.as_object().empty()) return Activation(name)(x);
  const auto axis = static_cast<int64_t>(number(o, "axis", -1));
  const double threshold = number(o, "threshold", 0.5), alpha = number(o, "alpha", 1);
  const std::map<std::string, std::function<Tensor()>> calls = {
      {"relu", [&] { return relu(x, relu_options(o)); }},
      {"leaky_relu", [&] { return leaky_relu(x, number(o, "negative_slope", 0)); }},
      {"elu", [&] { return activations::elu(x, alpha); }},
      {"celu", [&] { return activations::celu(x, alpha); }},
      {"gelu", [&] { return gelu(x, o.at("approximate").as_bool()); }},
      {"squareplus", [&] { return squareplus(x, number(o, "b", 4)); }},
      {"soft_shrink", [&] { return soft_shrink(x, threshold); }},
      {"hard_shrink", [&] { return hard_shrink(x, threshold); }},
      {"threshold",
       [&] { return activations::threshold(x, threshold, number(o, "default_value", 0)); }},
      {"softmax", [&] { return activations::softmax(x, axis); }},
      {"log_softmax", [&] { return activations::log_softmax(x, axis); }},
      {"sparsemax", [&] { return sparsemax(x, axis); }},
      {"glu", [&] { return activations::glu(x, axis); }},
  };
  return calls.at(name)();
}

// Below it float32 keeps no relative precision where a value or a gradient is a difference of
// larger numbers, such as 1 - tanh(x)^2.
double float_floor(const std::string& name) {
  const std::set<std::string> differences = {"gelu", "sigmoid", "softmax", "tanh", "tanh_shrink"};
  return differences.contains(name) ? 0.1 : 1e-3;
}

TEST(ActivationsTest, ValuesAndGradientsEqualKeras) {
  for (const Json& test : cases_with("activation")) {
    const std::string& name = test.at("activation").as_string();
    SCOPED_TRACE(name + test.at("options").dump());
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(dtype);
      // TensorFlow holds some constants as float32 for float64 too.
      const double tolerance = dtype == at::kFloat ? 1e-5 : 1e-6;
      const double floor = dtype == at::kFloat ? float_floor(name) : 1e-4;
      const Tensor x = golden_tensor(test.at("x")).to(dtype).requires_grad_();
      const Tensor y = call(name, x, test.at("options"));
      EXPECT_EQ(y.scalar_type(), dtype);
      expect_close(y.detach(), golden_tensor(test.at("y")), tolerance, floor);
      const Tensor weights = golden_tensor(test.at("weights")).to(dtype);
      expect_close(gradient_of(y * weights, x).detach(), golden_tensor(test.at("gradient")),
                   tolerance, floor);
    }
  }
}

TEST(ActivationsTest, NamesAreThoseOfKeras) {
  for (const auto& [name, function] : leaves().at("names").at("activations").as_object()) {
    if (name == "threshold") continue;  // has options without defaults
    EXPECT_EQ(Activation(name).name(), function.as_string());
    EXPECT_EQ(to_config(Activation(name)), function);
    Activation read;
    from_config(Json(name), read);
    EXPECT_EQ(read.name(), function.as_string());
  }
}

TEST(ActivationsTest, ReluIsLibtorchsAndLinearIsTheTensorItself) {
  const Tensor x = at::randn({3}).requires_grad_();
  EXPECT_EQ(Activation("relu")(x).grad_fn()->name(), "ReluBackward0");
  EXPECT_TRUE(Activation("linear")(x).is_same(x));
  EXPECT_TRUE(Activation("linear").is_linear());
  EXPECT_TRUE(Activation().is_linear());
  EXPECT_FALSE(Activation("relu").is_linear());
}

TEST(ActivationsTest, DerivativesThatAreWrittenOutHaveDerivatives) {
  for (const char* name : {"softsign", "squareplus", "sparse_plus"}) {
    const Tensor x = at::tensor({-0.7, -0.2, 0.3, 0.9}, at::kDouble).requires_grad_();
    const Tensor second = gradient_of(gradient_of(Activation(name)(x), x), x).detach();
    const double step = 1e-5;
    const auto first = [&](double by) {
      const Tensor moved = (x.detach() + by).requires_grad_();
      return gradient_of(Activation(name)(moved), moved).detach();
    };
    SCOPED_TRACE(name);
    expect_close(second, (first(step) - first(-step)) / (2 * step), 1e-6, 1e-3);
  }
}

TEST(ActivationsTest, SixteenBitsAndEmptyBatchesKeepDtypeAndShape) {
  for (const auto& [name, function] : leaves().at("names").at("activations").as_object()) {
    if (name == "threshold") continue;
    const Tensor x = at::ones({0, 4}, at::kBFloat16).requires_grad_();
    const Tensor y = Activation(name)(x);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16) << name;
    EXPECT_EQ(y.sizes(), at::IntArrayRef({0, name == "glu" ? 2 : 4})) << name;
  }
}

TEST(ActivationsTest, LayersAsActivationsKeepTheirOptions) {
  for (const Json& test : cases_with("layer")) {
    const Json& golden = test.at("layer");
    SCOPED_TRACE(golden.at("least").dump());
    Activation activation;
    from_config(golden.at("saved"), activation);
    EXPECT_TRUE(same(to_config(activation), golden.at("least"))) << to_config(activation).dump();
    expect_close(activation(golden_tensor(test.at("x"))), golden_tensor(test.at("y")), 1e-6, 1e-4);
    Activation again;
    from_config(golden.at("least"), again);
    EXPECT_EQ(to_config(again), to_config(activation));
  }
}

TEST(ActivationsTest, ReadsNullAndFunctionObjects) {
  Activation activation("relu");
  from_config(Json(), activation);
  EXPECT_TRUE(activation.is_linear());
  from_config(Json::parse(R"({"module": "builtins", "class_name": "function", "config": "tanh",
                             "registered_name": "tanh"})"),
              activation);
  EXPECT_EQ(activation.name(), "tanh");
}

TEST(ActivationsTest, AFunctionOfYoursWorksButCannotBeWritten) {
  const Activation twice([](const Tensor& x) { return x * 2; });
  EXPECT_EQ(twice(at::ones({1})).item<double>(), 2);
  EXPECT_EQ(twice.name(), "");
  EXPECT_FALSE(twice.is_linear());
  expect_error_containing([&] { to_config(twice); }, ErrorCode::kUnimplemented,
                          "[activations] to_config: got a user-defined function, which no file of "
                          "Keras's can hold; use one of linear, relu, ");
}

TEST(ActivationsTest, ErrorsNameWhatThereIs) {
  expect_error_containing([] { Activation("rellu"); }, ErrorCode::kInvalidArgument,
                          "[activations] got 'rellu'; expected one of linear, relu, leaky_relu, ");
  const auto read = [](const char* text) {
    return [text] {
      Activation activation;
      from_config(Json::parse(text), activation);
    };
  };
  expect_error_containing(read(R"("my_function")"), ErrorCode::kUnimplemented,
                          "[activations] from_config: got 'my_function'; strata has linear, relu");
  expect_error_containing(read(R"({"class_name": "PReLU", "config": {}})"),
                          ErrorCode::kUnimplemented,
                          "got layer 'PReLU'; strata reads ReLU, LeakyReLU, ELU, Softmax");
  expect_error_containing(read(R"({"class_name": "ReLU", "config": {"slope": 1}})"),
                          ErrorCode::kUnimplemented,
                          "config of activation ReLU: got option 'slope' = 1");
  expect_error_containing(read("3"), ErrorCode::kDataLoss, "config of an activation: got 3");
  expect_error(
      [] {
        activations::glu(at::ones({2, 3}));
      },
      "[activations] glu: got shape [2, 3] and axis -1; expected an even size there");
}

}  // namespace
}  // namespace strata::activations
