#include "strata/keras/regularizers.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "keras/leaves.h"
#include "support/expect_error.h"

namespace strata::regularizers {
namespace {

using at::Tensor;
using keras::golden::golden_tensor;
using keras::golden::number;

Regularizer make(const std::string& name, const Json& o) {
  if (o.as_object().empty()) return Regularizer(name);
  if (name == "L1") return L1(number(o, "l1", 0));
  if (name == "L2") return L2(number(o, "l2", 0));
  if (name == "L1L2") return L1L2({.l1 = number(o, "l1", 0), .l2 = number(o, "l2", 0)});
  return OrthogonalRegularizer(
      {.factor = number(o, "factor", 0), .mode = o.at("mode").as_string()});
}

Tensor gradient_of(const Tensor& y, const Tensor& x) { return torch::autograd::grad({y}, {x})[0]; }

TEST(RegularizersTest, PenaltiesGradientsAndJsonEqualKeras) {
  for (const Json& test : keras::golden::cases_with("regularizer")) {
    const std::string& name = test.at("regularizer").as_string();
    SCOPED_TRACE(name + test.at("options").dump());
    const Regularizer rule = make(name, test.at("options"));
    EXPECT_TRUE(rule);
    const Tensor x = golden_tensor(test.at("x")).to(at::kFloat).requires_grad_();
    const Tensor y = rule(x);
    keras::golden::expect_close(y.detach(), golden_tensor(test.at("y")), 1e-5, 1e-6);
    keras::golden::expect_close(gradient_of(y, x), golden_tensor(test.at("gradient")), 1e-5, 1e-4);
    keras::golden::expect_same_json(rule, test.at("json"));
  }
}

TEST(RegularizersTest, NamesAreThoseOfKeras) {
  keras::golden::expect_names<Regularizer>("regularizers");
  EXPECT_EQ(to_config(Regularizer("l1_l2")).at("class_name"), Json("L1L2"));
}

TEST(RegularizersTest, NoneIsNull) {
  EXPECT_FALSE(Regularizer());
  EXPECT_EQ(to_config(Regularizer()), Json());
  Regularizer rule("l2");
  from_config(Json(), rule);
  EXPECT_FALSE(rule);
  expect_error_containing([&] { rule(at::ones({1})); }, ErrorCode::kFailedPrecondition,
                          "[regularizers] called without a rule");
}

TEST(RegularizersTest, OrthogonalGradientOfARowOfZerosIsFinite) {
  Tensor x = at::ones({2, 3});
  x[0].zero_();
  x.requires_grad_();
  EXPECT_TRUE(gradient_of(OrthogonalRegularizer()(x), x).isfinite().all().item<bool>());
  const Tensor one_row = at::ones({1, 3}).requires_grad_();
  EXPECT_EQ(OrthogonalRegularizer()(one_row).item<double>(), 0);
}

TEST(RegularizersTest, AFunctionOfYoursWorksButCannotBeWritten) {
  const Regularizer rule([](const Tensor& x) { return x.max(); });
  EXPECT_EQ(rule(at::ones({2})).item<double>(), 1);
  expect_error([&] { to_config(rule); }, ErrorCode::kUnimplemented,
               "[regularizers] to_config: got a user-defined function, which no file of Keras's "
               "can hold; use "
               "one of l1, l2, l1l2, orthogonal_regularizer");
}

TEST(RegularizersTest, ErrorsSayWhatIsWrong) {
  expect_error([] { Regularizer("l3"); },
               "[regularizers] got 'l3'; expected one of l1, l2, l1l2, orthogonal_regularizer, or "
               "a function");
  expect_error([] { L2(-1); },
               "[regularizers] got l2 = -1; expected a finite factor that is not negative");
  expect_error([] { L1L2({.l1 = std::numeric_limits<double>::infinity()}); },
               "[regularizers] got l1 = inf; expected a finite factor that is not negative");
  expect_error([] { OrthogonalRegularizer({.mode = "diagonals"}); },
               "[regularizers] OrthogonalRegularizer: got mode='diagonals'; expected 'rows' or "
               "'columns'");
  expect_error(
      [] {
        OrthogonalRegularizer()(at::ones({2, 2, 2}));
      },
      "[regularizers] OrthogonalRegularizer: got shape [2, 2, 2]; expected a matrix");
  Regularizer rule;
  expect_error([&] { from_config(Json::parse(R"({"class_name": "L0", "config": {}})"), rule); },
               ErrorCode::kUnimplemented,
               "[regularizers] from_config: got 'L0'; strata has l1, l2, l1l2, "
               "orthogonal_regularizer");
  expect_error_containing(
      [&] { from_config(Json::parse(R"({"class_name": "L1", "config": {"l2": 1}})"), rule); },
      ErrorCode::kUnimplemented, "config of regularizer L1: got option 'l2' = 1");
}

}  // namespace
}  // namespace strata::regularizers
