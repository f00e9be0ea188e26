// Random numbers. A program draws them from a state of its own (ThreeFry), which is one more of its arguments and
// results: they are not libtorch's numbers, but have their distributions.
#include <cmath>
#include <numbers>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

/// In [0, 1), each multiple of the distance as likely. float32 for the 16-bit numbers, too.
Array uniform_numbers(NodeLowering& node, at::ScalarType dtype, const Sizes& sizes) {
  const bool wide = dtype == at::kDouble;
  const auto word = wide ? at::ScalarType::UInt64 : at::ScalarType::UInt32;
  const at::ScalarType real = wide ? at::kDouble : at::kFloat;
  const int digits = wide ? 53 : 24, width = wide ? 64 : 32;
  const Array bits = binary("stablehlo.shift_right_logical", node.random_bits(word, sizes),
                            node.program().scalar(int64_t{width - digits}, word));
  return convert(bits, real) * std::ldexp(1.0, -digits);
}

Array normal_numbers(NodeLowering& node, at::ScalarType dtype, const Sizes& sizes) {
  const Array radius =
      sqrt(-2 * log(1 - uniform_numbers(node, dtype, sizes)));  // Box and Muller 1958
  const Array angle = uniform_numbers(node, dtype, sizes) * (2 * std::numbers::pi);
  return radius * unary("stablehlo.cosine", angle);
}

void rand(NodeLowering& node) {
  node.give(convert(uniform_numbers(node, node.dtype(), node.sizes()), node.dtype()));
}
void randn(NodeLowering& node) {
  node.give(convert(normal_numbers(node, node.dtype(), node.sizes()), node.dtype()));
}

/// uniform_(x, from, to)
void uniform(NodeLowering& node) {
  const double from = node.number(1), to = node.number(2);
  node.give(uniform_numbers(node, node.dtype(), node.sizes()) * (to - from) + from);
}
/// normal_(x, mean, deviation)
void normal(NodeLowering& node) {
  node.give(normal_numbers(node, node.dtype(), node.sizes()) * node.number(2) + node.number(1));
}
/// exponential_(x, rate)
void exponential(NodeLowering& node) {
  node.give(log(1 - uniform_numbers(node, node.dtype(), node.sizes())) / -node.number(1));
}

/// Ones with a probability: bernoulli(x), bernoulli.p(x, p), bernoulli_.float(x, p), bernoulli_.Tensor(x, p)
void bernoulli(NodeLowering& node) {
  const bool has_p = node.num_arguments() > 2;
  const at::ScalarType dtype = node.dtype() == at::kDouble ? at::kDouble : at::kFloat;
  const Array p = node.operand(has_p ? 1 : 0, dtype);
  node.give(convert(compare("LT", uniform_numbers(node, dtype, node.sizes()), p), node.dtype()));
}

/// (x, p, training): x without a part of its elements, and which are left
void dropout(NodeLowering& node) {
  const Array x = node.in(0);
  const double p = node.number(1);
  const bool training = node.is_none(2) || node.flag(2);
  if (!training || p == 0) {
    node.give(x, 0);
    return node.give(filled(node.program(), 1, at::kBool, x.sizes), 1);
  }
  const at::ScalarType dtype = x.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const Array drawn = uniform_numbers(node, dtype, x.sizes);
  const Array left = compare("GE", drawn, number_like(drawn, p));
  node.give(select(left, p == 1 ? x : x / (1 - p), number_like(x, 0)), 0);
  node.give(left, 1);
}
void dropout_backward(NodeLowering& node) {  // (gradient, mask, scale)
  const Array gradient = node.in(0);
  node.give(select(node.in(1), gradient * node.number(2), number_like(gradient, 0)));
}

/// randint(high, ...), randint.low(low, high, ...), random_.to(x, high), random_.from(x, low, high)
void give_integers(NodeLowering& node, int64_t low, int64_t high) {
  const Array drawn = uniform_numbers(node, at::kDouble, node.sizes());
  const Array whole = unary("stablehlo.floor", drawn * static_cast<double>(high - low));
  node.give(convert(whole + static_cast<double>(low), node.dtype()));
}
void randint(NodeLowering& node) { give_integers(node, 0, node.integer(0)); }
void randint_low(NodeLowering& node) { give_integers(node, node.integer(0), node.integer(1)); }
void random_to(NodeLowering& node) { give_integers(node, 0, node.integer(1)); }
void random_from(NodeLowering& node) {
  node.require(!node.is_none(2), "no upper bound");
  give_integers(node, node.integer(1), node.integer(2));
}

void randperm(NodeLowering& node) {
  const Array drawn = uniform_numbers(node, at::kDouble, node.sizes());
  node.give(convert(sort(drawn, 0, false).second, node.dtype()));
}

}  // namespace

const Rules& random_rules() {
  static const Rules rules = {
      {"aten::bernoulli", {bernoulli}},
      {"aten::exponential", {exponential}},
      {"aten::native_dropout", {dropout}},
      {"aten::native_dropout_backward", {dropout_backward}},
      {"aten::normal", {normal}},
      {"aten::rand", {rand}},
      {"aten::rand_like", {rand}},
      {"aten::randint", {randint}},
      {"aten::randint.low", {randint_low}},
      {"aten::randint.low_generator", {randint_low}},
      {"aten::randn", {randn}},
      {"aten::randn_like", {randn}},
      {"aten::random.from", {random_from}},
      {"aten::random.to", {random_to}},
      {"aten::randperm", {randperm}},
      {"aten::uniform", {uniform}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
