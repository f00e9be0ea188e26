#include "strata/keras/constraints.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>

#include <utility>

#include "keras/named_rule.h"

namespace strata::constraints {

using at::Tensor;

struct Constraint::Rule : keras::NamedRule<Function> {};

// Keras takes one axis, a list of them, or null for all.
struct Axes {
  std::vector<int64_t>& values;
};
Json to_config(const Axes& axes) {
  if (axes.values.empty()) return {};
  return axes.values.size() == 1 ? Json(axes.values[0]) : keras::to_config(axes.values);
}
void from_config(const Json& json, Axes& axes) {
  if (json.is_null()) {
    axes.values.clear();
  } else if (json.is_int()) {
    axes.values = {json.as_int()};
  } else {
    keras::from_config(json, axes.values);
  }
}

template <typename Config>
void visit_axis(Config& config, std::vector<int64_t>& values) {
  Axes axes{values};
  config("axis", axes);
}
template <typename Config>
void visit(Config& config, MaxNormOptions& options) {
  config("max_value", options.max_value);
  visit_axis(config, options.axis);
}
template <typename Config>
void visit(Config& config, MinMaxNormOptions& options) {
  config("min_value", options.min_value);
  config("max_value", options.max_value);
  config("rate", options.rate);
  visit_axis(config, options.axis);
}
template <typename Config>
void visit(Config& config, UnitNormOptions& options) {
  visit_axis(config, options.axis);
}

namespace {

constexpr double kEpsilon = 1e-7;  // keras.config.epsilon()

using Classes = keras::ClassRegistry<Constraint>;

const Classes& classes() {
  static const Classes all(
      "constraint", {{"MaxNorm", keras::make_rule<Constraint, MaxNorm, MaxNormOptions>},
                     {"MinMaxNorm", keras::make_rule<Constraint, MinMaxNorm, MinMaxNormOptions>},
                     {"NonNeg",
                      [](const Json& config, const std::string& owner) -> Constraint {
                        keras::ConfigReader(config, owner).finish();
                        return NonNeg();
                      }},
                     {"UnitNorm", keras::make_rule<Constraint, UnitNorm, UnitNormOptions>}});
  return all;
}

Tensor norms(const Tensor& x, const std::vector<int64_t>& axis) {
  return at::sqrt(at::sum(at::square(x), axis, /*keepdim=*/true));
}

// x with the norms `desired`.
Tensor rescaled(const Tensor& x, const Tensor& norms, const Tensor& desired) {
  return x * (desired / (norms + kEpsilon));
}

}  // namespace

Constraint::Constraint(const char* name) : Constraint(std::string(name)) {}
Constraint::Constraint(const std::string& name) : Constraint(classes().named(name)) {}
Constraint::Constraint(Function function)
    : Constraint(std::string(), Json(), std::move(function)) {}
Constraint::Constraint(std::string class_name, Json config, Function function)
    : rule_(std::make_shared<const Rule>(
          Rule{{std::move(class_name), std::move(config), std::move(function)}})) {}

Tensor Constraint::operator()(const Tensor& x) const {
  STRATA_CHECK(rule_ != nullptr, kFailedPrecondition, "[constraints] called without a rule");
  const at::NoGradGuard no_grad;
  return rule_->function(x);
}

MaxNorm::MaxNorm(const MaxNormOptions& options)
    : Constraint("MaxNorm", keras::write_options(options), [options](const Tensor& x) {
        const Tensor now = norms(x, options.axis);
        return rescaled(x, now, at::clamp(now, 0, options.max_value));
      }) {}

MinMaxNorm::MinMaxNorm(const MinMaxNormOptions& options)
    : Constraint("MinMaxNorm", keras::write_options(options), [options](const Tensor& x) {
        const Tensor now = norms(x, options.axis);
        const Tensor inside = at::clamp(now, options.min_value, options.max_value);
        return rescaled(x, now, inside * options.rate + now * (1 - options.rate));
      }) {}

UnitNorm::UnitNorm(const UnitNormOptions& options)
    : Constraint("UnitNorm", keras::write_options(options),
                 [options](const Tensor& x) { return x / (norms(x, options.axis) + kEpsilon); }) {}

NonNeg::NonNeg()
    : Constraint("NonNeg", Json::object(), [](const Tensor& x) { return at::relu(x); }) {}

Json to_config(const Constraint& constraint) {
  return constraint.rule_ == nullptr ? Json() : classes().write(*constraint.rule_);
}

void from_config(const Json& json, Constraint& constraint) {
  constraint = json.is_null() ? Constraint() : classes().read(json);
}

}  // namespace strata::constraints
