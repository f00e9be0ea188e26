#include "strata/keras/regularizers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tril.h>

#include <cmath>
#include <utility>

#include "keras/named_rule.h"

namespace strata::regularizers {

using at::Tensor;

struct Regularizer::Rule : keras::NamedRule<Function> {};

// Options of classes that take plain numbers.
struct L1Factor {
  double l1 = 0.01;
};
struct L2Factor {
  double l2 = 0.01;
};

template <typename Config>
void visit(Config& config, L1Factor& factor) {
  config("l1", factor.l1);
}
template <typename Config>
void visit(Config& config, L2Factor& factor) {
  config("l2", factor.l2);
}
template <typename Config>
void visit(Config& config, L1L2Options& options) {
  config("l1", options.l1);
  config("l2", options.l2);
}
template <typename Config>
void visit(Config& config, OrthogonalOptions& options) {
  config("factor", options.factor);
  config("mode", options.mode);
}

namespace {

using Classes = keras::ClassRegistry<Regularizer>;

const Classes& classes() {
  static const Classes all(
      "regularizer", {{"L1",
                       [](const Json& config, const std::string& owner) -> Regularizer {
                         return L1(keras::read_options<L1Factor>(config, owner).l1);
                       }},
                      {"L2",
                       [](const Json& config, const std::string& owner) -> Regularizer {
                         return L2(keras::read_options<L2Factor>(config, owner).l2);
                       }},
                      {"L1L2", keras::make_rule<Regularizer, L1L2, L1L2Options>, {"l1_l2"}},
                      {"OrthogonalRegularizer",
                       keras::make_rule<Regularizer, OrthogonalRegularizer, OrthogonalOptions>}});
  return all;
}

double checked(const char* name, double factor) {
  STRATA_CHECK(std::isfinite(factor) && factor >= 0, kInvalidArgument, "[regularizers] got ", name,
               " = ", factor, "; expected a finite factor that is not negative");
  return factor;
}

Tensor l1_penalty(const Tensor& x, double factor) { return at::sum(at::abs(x)) * factor; }
Tensor l2_penalty(const Tensor& x, double factor) { return at::sum(at::square(x)) * factor; }

Tensor orthogonal_penalty(const Tensor& x, const OrthogonalOptions& options) {
  STRATA_CHECK(x.dim() == 2, kInvalidArgument, "[regularizers] OrthogonalRegularizer: got shape ",
               x.sizes(), "; expected a matrix");
  constexpr double kSmallestSquaredNorm = 1e-14;  // of keras.ops.normalize
  const Tensor rows = options.mode == "rows" ? x : x.t();
  const auto size = static_cast<double>(rows.size(0));
  if (size < 2) return at::sum(rows) * 0;
  const Tensor squares = at::sum(at::square(rows), /*dim=*/{1}, /*keepdim=*/true);
  // Before the root, so that the gradient of a row of zeros is finite.
  const Tensor unit = rows * at::rsqrt(at::clamp_min(squares, kSmallestSquaredNorm));
  const Tensor cosines = at::tril(at::matmul(unit, unit.t()), /*diagonal=*/-1);
  return at::sum(at::abs(cosines)) * (options.factor / (size * (size - 1) / 2));
}

}  // namespace

Regularizer::Regularizer(const char* name) : Regularizer(std::string(name)) {}
Regularizer::Regularizer(const std::string& name) : Regularizer(classes().named(name)) {}
Regularizer::Regularizer(Function function)
    : Regularizer(std::string(), Json(), std::move(function)) {}
Regularizer::Regularizer(std::string class_name, Json config, Function function)
    : rule_(std::make_shared<const Rule>(
          Rule{{std::move(class_name), std::move(config), std::move(function)}})) {}

Tensor Regularizer::operator()(const Tensor& x) const {
  STRATA_CHECK(rule_ != nullptr, kFailedPrecondition, "[regularizers] called without a rule");
  return rule_->function(x);
}

L1::L1(double l1)
    : Regularizer("L1", keras::write_options(L1Factor{checked("l1", l1)}),
                  [l1](const Tensor& x) { return l1_penalty(x, l1); }) {}

L2::L2(double l2)
    : Regularizer("L2", keras::write_options(L2Factor{checked("l2", l2)}),
                  [l2](const Tensor& x) { return l2_penalty(x, l2); }) {}

L1L2::L1L2(const L1L2Options& options)
    : Regularizer("L1L2", keras::write_options(options), [options](const Tensor& x) {
        if (options.l1 == 0) return l2_penalty(x, options.l2);
        if (options.l2 == 0) return l1_penalty(x, options.l1);
        return l1_penalty(x, options.l1) + l2_penalty(x, options.l2);
      }) {
  checked("l1", options.l1);
  checked("l2", options.l2);
}

OrthogonalRegularizer::OrthogonalRegularizer(const OrthogonalOptions& options)
    : Regularizer("OrthogonalRegularizer", keras::write_options(options),
                  [options](const Tensor& x) { return orthogonal_penalty(x, options); }) {
  checked("factor", options.factor);
  options.mode.check("[regularizers] OrthogonalRegularizer");
}

Json to_config(const Regularizer& regularizer) {
  return regularizer.rule_ == nullptr ? Json() : classes().write(*regularizer.rule_);
}

void from_config(const Json& json, Regularizer& regularizer) {
  regularizer = json.is_null() ? Regularizer() : classes().read(json);
}

}  // namespace strata::regularizers
