// Activation functions and their gradients, by the formulas of libtorch's kernels.
#include <cmath>
#include <numbers>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

Array is_positive(const Array& x) { return compare("GT", x, number_like(x, 0)); }
Array or_zero(const Array& condition, const Array& x) {
  return select(condition, x, number_like(x, 0));
}

void relu(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(maximum(x, 0.0));
}

void threshold_backward(NodeLowering& node) {
  const Array x = node.in(1);
  node.give(or_zero(compare("GT", x, number_like(x, node.number(2))), node.in(0)));
}
void threshold(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(
      select(compare("GT", x, number_like(x, node.number(1))), x, number_like(x, node.number(2))));
}

void sigmoid(NodeLowering& node) { node.give(logistic(node.in(0, node.dtype()))); }
void sigmoid_backward(NodeLowering& node) {
  const Array y = node.in(1);
  node.give(node.in(0) * (1 - y) * y);
}
void tanh_backward(NodeLowering& node) {
  const Array y = node.in(1);
  node.give(node.in(0) * (1 - y * y));
}

constexpr double kCubic = 0.044715;
const double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)

void gelu(NodeLowering& node) {
  const Array x = node.in(0);
  if (node.text(1) == "tanh") {
    return node.give(0.5 * x * (1 + tanh(kTanhScale * (x + kCubic * x * x * x))));
  }
  node.give(x * 0.5 * (1 + erf(x * (1 / std::numbers::sqrt2))));
}

void gelu_backward(NodeLowering& node) {
  const Array gradient = node.in(0), x = node.in(1);
  if (node.text(2) == "tanh") {
    const Array t = tanh(kTanhScale * (x + kCubic * x * x * x));
    const Array inner = kTanhScale * (1 + 3 * kCubic * x * x);
    return node.give(gradient * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner));
  }
  const Array cdf = 0.5 * (1 + erf(x * (1 / std::numbers::sqrt2)));
  const double scale = 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // 1 / sqrt(2 pi)
  const Array pdf = exp(x * x * -0.5) * scale;
  node.give(gradient * (cdf + x * pdf));
}

void silu(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(x * logistic(x));
}
void silu_backward(NodeLowering& node) {
  const Array x = node.in(1), s = logistic(x);
  node.give(node.in(0) * s * (1 + x * (1 - s)));
}

/// log(1 + exp(x)), where nothing overflows.
Array soft_plus(const Array& x) {
  return maximum(x, 0.0) + unary("stablehlo.log_plus_one", exp(-absolute(x)));
}

void mish(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(x * tanh(soft_plus(x)));
}
void mish_backward(NodeLowering& node) {
  const Array x = node.in(1), s = logistic(x), t = tanh(soft_plus(x));
  node.give(node.in(0) * (t + x * s * (1 - t * t)));
}

void softplus(NodeLowering& node) {
  const Array x = node.in(0), scaled = x * node.number(1);
  node.give(select(compare("GT", scaled, number_like(x, node.number(2))), x,
                   soft_plus(scaled) / node.number(1)));
}
void softplus_backward(NodeLowering& node) {
  const Array gradient = node.in(0), scaled = node.in(1) * node.number(2);
  node.give(select(compare("GT", scaled, number_like(scaled, node.number(3))), gradient,
                   gradient * logistic(scaled)));
}

void log_sigmoid(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(-soft_plus(-x), 0);
  if (node.wants(1) && node.sizes(1) == x.sizes) node.give(exp(-absolute(x)), 1);
}
void log_sigmoid_backward(NodeLowering& node) { node.give(node.in(0) * logistic(-node.in(1))); }

void leaky_relu(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(select(is_positive(x), x, x * node.number(1)));
}
void leaky_relu_backward(NodeLowering& node) {
  const Array gradient = node.in(0);
  node.give(select(is_positive(node.in(1)), gradient, gradient * node.number(2)));
}

void elu(NodeLowering& node) {
  const Array x = node.in(0);
  const double alpha = node.number(1), scale = node.number(2), input_scale = node.number(3);
  const Array below = unary("stablehlo.exponential_minus_one", x * input_scale) * (alpha * scale);
  node.give(select(is_positive(x), x * scale, below));
}
void elu_backward(NodeLowering& node) {
  const Array gradient = node.in(0), x = node.in(5);
  const double alpha = node.number(1), scale = node.number(2), input_scale = node.number(3);
  const Array below = node.flag(4)
                          ? gradient * input_scale * (x + alpha * scale)
                          : gradient * (input_scale * alpha * scale) * exp(x * input_scale);
  node.give(select(is_positive(x), gradient * scale, below));
}

void celu(NodeLowering& node) {  // (x, alpha)
  const Array x = node.in(0);
  const double alpha = node.number(1);
  const Array below = unary("stablehlo.exponential_minus_one", x * (1 / alpha)) * alpha;
  node.give(select(is_positive(x), x, below));
}

void hardtanh(NodeLowering& node) {
  node.give(minimum(maximum(node.in(0), node.number(1)), node.number(2)));
}
void hardtanh_backward(NodeLowering& node) {
  const Array x = node.in(1);
  node.give(or_zero(both(compare("GT", x, number_like(x, node.number(2))),
                         compare("LT", x, number_like(x, node.number(3)))),
                    node.in(0)));
}

Array hard_gate(const Array& x) { return minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0; }
void hardsigmoid(NodeLowering& node) { node.give(hard_gate(node.in(0))); }
constexpr double kSixth = 1.0F / 6.0F;  // as libtorch rounds it, for doubles, too
void hardsigmoid_backward(NodeLowering& node) {
  const Array x = node.in(1);
  node.give(or_zero(both(compare("GT", x, number_like(x, -3)), compare("LT", x, number_like(x, 3))),
                    node.in(0) * kSixth));
}
void hardswish(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(x * hard_gate(x));
}
void hardswish_backward(NodeLowering& node) {
  const Array gradient = node.in(0), x = node.in(1);
  const Array middle = gradient * (x / 3.0 + 0.5);
  node.give(or_zero(compare("GT", x, number_like(x, -3)),
                    select(compare("LT", x, number_like(x, 3)), middle, gradient)));
}

void prelu_kernel(NodeLowering& node) {  // its weight already has x's axes
  const Array x = node.in(0);
  node.give(select(is_positive(x), x, x * node.in(1)));
}
void prelu_kernel_backward(NodeLowering& node) {
  const Array gradient = node.in(0), x = node.in(1), weight = node.in(2);
  const Array positive = is_positive(x);
  node.give(select(positive, gradient, gradient * weight), 0);
  node.give(select(positive, number_like(x, 0), gradient * x), 1);
}

}  // namespace

const Rules& activation_rules() {
  static const Rules rules = {
      {"aten::_prelu_kernel", {prelu_kernel}},
      {"aten::_prelu_kernel_backward", {prelu_kernel_backward}},
      {"aten::celu", {celu}},
      {"aten::elu", {elu}},
      {"aten::elu_backward", {elu_backward}},
      {"aten::gelu", {gelu}},
      {"aten::gelu_backward", {gelu_backward}},
      {"aten::hardsigmoid", {hardsigmoid}},
      {"aten::hardsigmoid_backward", {hardsigmoid_backward}},
      {"aten::hardswish", {hardswish}},
      {"aten::hardswish_backward", {hardswish_backward}},
      {"aten::hardtanh", {hardtanh}},
      {"aten::hardtanh_backward", {hardtanh_backward}},
      {"aten::leaky_relu", {leaky_relu}},
      {"aten::leaky_relu_backward", {leaky_relu_backward}},
      {"aten::log_sigmoid_backward", {log_sigmoid_backward}},
      {"aten::log_sigmoid_forward", {log_sigmoid}},
      {"aten::mish", {mish}},
      {"aten::mish_backward", {mish_backward}},
      {"aten::relu", {relu}},
      {"aten::sigmoid", {sigmoid}},
      {"aten::sigmoid_backward", {sigmoid_backward}},
      {"aten::silu", {silu}},
      {"aten::silu_backward", {silu_backward}},
      {"aten::softplus", {softplus}},
      {"aten::softplus_backward", {softplus_backward}},
      {"aten::tanh_backward", {tanh_backward}},
      {"aten::threshold", {threshold}},
      {"aten::threshold_backward", {threshold_backward}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
