#include "strata/keras/constraints.h"

#include <gtest/gtest.h>

#include "keras/leaves.h"
#include "support/expect_error.h"

namespace strata::constraints {
namespace {

using at::Tensor;
using keras::golden::golden_tensor;
using keras::golden::number;

std::vector<int64_t> axes(const Json& options) {
  const Json* axis = options.find("axis");
  if (axis == nullptr) return {0};
  if (axis->is_int()) return {axis->as_int()};
  std::vector<int64_t> values;
  keras::from_config(*axis, values);
  return values;
}

Constraint make(const std::string& name, const Json& o) {
  if (o.as_object().empty()) return Constraint(name);
  if (name == "MaxNorm") return MaxNorm({.max_value = number(o, "max_value", 2), .axis = axes(o)});
  if (name == "UnitNorm") return UnitNorm({.axis = axes(o)});
  return MinMaxNorm({.min_value = number(o, "min_value", 0),
                     .max_value = number(o, "max_value", 1),
                     .rate = number(o, "rate", 1),
                     .axis = axes(o)});
}

TEST(ConstraintsTest, ResultsAndJsonEqualKeras) {
  for (const Json& test : keras::golden::cases_with("constraint")) {
    const std::string& name = test.at("constraint").as_string();
    SCOPED_TRACE(name + test.at("options").dump());
    const Constraint rule = make(name, test.at("options"));
    EXPECT_TRUE(rule);
    const Tensor x = golden_tensor(test.at("x")), y = golden_tensor(test.at("y"));
    keras::golden::expect_close(rule(x), y, 1e-9, 1e-4);
    keras::golden::expect_close(rule(x.to(at::kFloat)), y, 1e-5, 1e-3);
    keras::golden::expect_same_json(rule, test.at("json"));
  }
}

TEST(ConstraintsTest, StaysOutOfAutograd) {
  EXPECT_FALSE(Constraint("max_norm")(at::ones({2, 2}).requires_grad_()).requires_grad());
}

TEST(ConstraintsTest, NamesAreThoseOfKeras) {
  keras::golden::expect_names<Constraint>("constraints");
}

TEST(ConstraintsTest, AllAxesAreNull) {
  const Constraint rule = UnitNorm({.axis = {}});
  EXPECT_EQ(to_config(rule).at("config").at("axis"), Json());
  Constraint read;
  from_config(to_config(rule), read);
  EXPECT_EQ(to_config(read), to_config(rule));
  EXPECT_NEAR(read(at::ones({3, 4})).square().sum().item<double>(), 1, 1e-5);
}

TEST(ConstraintsTest, NoneIsNull) {
  EXPECT_FALSE(Constraint());
  EXPECT_EQ(to_config(Constraint()), Json());
  Constraint rule("non_neg");
  from_config(Json(), rule);
  EXPECT_FALSE(rule);
  expect_error_containing([&] { rule(at::ones({1})); }, ErrorCode::kFailedPrecondition,
                          "[constraints] called without a rule");
}

TEST(ConstraintsTest, ErrorsSayWhatIsWrong) {
  const Constraint local([](const Tensor& x) { return x * 2; });
  EXPECT_EQ(local(at::ones({1})).item<double>(), 2);
  expect_error([&] { to_config(local); }, ErrorCode::kUnimplemented,
               "[constraints] to_config: got a user-defined function, which no file of Keras's can "
               "hold; use "
               "one of max_norm, min_max_norm, non_neg, unit_norm");
  expect_error([] { Constraint("max"); },
               "[constraints] got 'max'; expected one of max_norm, min_max_norm, non_neg, "
               "unit_norm, or a function");
  Constraint rule;
  expect_error_containing(
      [&] { from_config(Json::parse(R"({"class_name": "NonNeg", "config": {"a": 1}})"), rule); },
      ErrorCode::kUnimplemented, "config of constraint NonNeg: got option 'a' = 1");
  expect_error_containing([&] { from_config(Json("mine"), rule); }, ErrorCode::kUnimplemented,
                          "[constraints] from_config: got 'mine'; strata has max_norm");
}

}  // namespace
}  // namespace strata::constraints
