// Batch, layer and group normalization, and their gradients.
#include <algorithm>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

Sizes all_but_channels(const Array& x) {
  Sizes axes = all_axes(x.rank());
  axes.erase(axes.begin() + 1);
  return axes;
}

double count_over(const Array& x, const Sizes& axes) {
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x.size(axis));
  return count;
}

/// For each channel, along axis 1.
Array channels(const Array& values, const Array& x) { return along(values, x.sizes, 1); }

void batch_norm(NodeLowering& node) {
  // (x, weight, bias, running mean, running variance, training, momentum, eps)
  const at::ScalarType dtype = accumulated_in(node.dtype());
  const Array x = node.in(0, dtype);
  const Sizes axes = all_but_channels(x);
  const bool training = node.flag(5);
  Array center, variance;
  if (training) {
    center = mean(x, axes);
    const Array distance = x - channels(center, x);
    variance = mean(distance * distance, axes);
  } else {
    center = node.in(3, dtype);
    variance = node.in(4, dtype);
  }
  const Array inverse = 1 / sqrt(variance + node.number(7));
  Array y = (x - channels(center, x)) * channels(inverse, x);
  if (!node.is_none(1)) y = y * channels(node.in(1, dtype), x);
  if (!node.is_none(2)) y = y + channels(node.in(2, dtype), x);
  node.give(y, 0);
  if (!training) return;  // there is nothing to save for backward
  node.give(center, 1);
  node.give(inverse, 2);
  const double momentum = node.number(6), count = count_over(x, axes);
  const auto update = [&](size_t i, const Array& value) {
    if (node.is_none(i)) return;
    const Array running = node.in(i);
    node.write(i, running * (1 - momentum) + convert(value, running.dtype) * momentum);
  };
  update(3, center);
  update(4, variance * (count / (count - 1)));
}

/// (gradient, x, weight, running mean, running variance, mean, inverse, training, eps, mask)
void batch_norm_backward(NodeLowering& node) {
  const at::ScalarType dtype = accumulated_in(node.value(1).dtype);
  const Array gradient = node.in(0, dtype), x = node.in(1, dtype);
  const Sizes axes = all_but_channels(x);
  const bool training = node.flag(7);
  const Array center = training ? node.in(5, dtype) : node.in(3, dtype);
  const Array inverse = training ? node.in(6, dtype) : 1 / sqrt(node.in(4, dtype) + node.number(8));
  const Array normal = (x - channels(center, x)) * channels(inverse, x);
  const Array of_bias = sum(gradient, axes), of_weight = sum(gradient * normal, axes);
  if (node.wants(0)) {
    Array scale = inverse;
    if (!node.is_none(2)) scale = scale * node.in(2, dtype);
    Array inner = gradient;
    if (training) {
      const double count = count_over(x, axes);
      inner = gradient - channels(of_bias / count, x) - normal * channels(of_weight / count, x);
    }
    node.give(inner * channels(scale, x), 0);
  }
  if (node.wants(1)) node.give(of_weight, 1);
  if (node.wants(2)) node.give(of_bias, 2);
}

/// A weight of x's last axes, with x's; without one nothing.
Array scaled(NodeLowering& node, const Array& x, size_t weight) {
  return node.is_none(weight) ? x : x * node.in(weight, x.dtype);
}

struct Normalized {
  Array center, inverse;  // with axes of size one
};

Normalized normalize(const Array& x, const Sizes& axes, double eps) {
  const Array center = mean(x, axes, true);
  const Array distance = x - center;
  return {.center = center, .inverse = 1 / sqrt(mean(distance * distance, axes, true) + eps)};
}

/// The gradient of x from that of (x - center) * inverse.
Array through_normal(const Array& gradient, const Array& normal, const Array& inverse,
                     const Sizes& axes) {
  return (gradient - mean(gradient, axes, true) - normal * mean(gradient * normal, axes, true)) *
         inverse;
}

Sizes last_axes(const Array& x, size_t count) {
  Sizes axes = all_axes(x.rank());
  axes.erase(axes.begin(), axes.end() - static_cast<int64_t>(count));
  return axes;
}

void layer_norm(NodeLowering& node) {  // (x, shape, weight, bias, eps)
  const at::ScalarType dtype = accumulated_in(node.dtype());
  const Array x = node.in(0, dtype);
  const Sizes axes = last_axes(x, node.integers(1).size());
  const Normalized made = normalize(x, axes, node.number(4));
  Array y = scaled(node, (x - made.center) * made.inverse, 2);
  if (!node.is_none(3)) y = y + node.in(3, dtype);
  node.give(y, 0);
  if (node.wants(1)) node.give(reshape(made.center, node.sizes(1)), 1);
  if (node.wants(2)) node.give(reshape(made.inverse, node.sizes(2)), 2);
}

/// (gradient, x, shape, mean, inverse, weight, bias, mask)
void layer_norm_backward(NodeLowering& node) {
  const at::ScalarType dtype = accumulated_in(node.value(1).dtype);
  const Array gradient = node.in(0, dtype), x = node.in(1, dtype);
  const Sizes axes = last_axes(x, node.integers(2).size());
  const Sizes small = kept(x.sizes, axes);
  const Array inverse = reshape(node.in(4, dtype), small);
  const Array normal = (x - reshape(node.in(3, dtype), small)) * inverse;
  Sizes others = all_axes(x.rank() - static_cast<int64_t>(axes.size()));
  if (node.wants(0)) {
    node.give(through_normal(scaled(node, gradient, 5), normal, inverse, axes), 0);
  }
  if (node.wants(1)) node.give(sum(gradient * normal, others), 1);
  if (node.wants(2)) node.give(sum(gradient, others), 2);
}

/// x `[n, c, ...]` as `[n, groups, elements]`.
Array in_groups(const Array& x, int64_t groups) {
  return reshape(x, {x.size(0), groups, x.count() / std::max<int64_t>(1, x.size(0) * groups)});
}

void group_norm(NodeLowering& node) {  // (x, weight, bias, n, c, elements, groups, eps)
  const at::ScalarType dtype = accumulated_in(node.dtype());
  const Array x = node.in(0, dtype), grouped = in_groups(x, node.integer(6));
  const Normalized made = normalize(grouped, {2}, node.number(7));
  Array y = reshape((grouped - made.center) * made.inverse, x.sizes);
  if (!node.is_none(1)) y = y * channels(node.in(1, dtype), x);
  if (!node.is_none(2)) y = y + channels(node.in(2, dtype), x);
  node.give(y, 0);
  if (node.wants(1)) node.give(reshape(made.center, node.sizes(1)), 1);
  if (node.wants(2)) node.give(reshape(made.inverse, node.sizes(2)), 2);
}

/// (gradient, x, mean, inverse, weight, n, c, elements, groups, mask)
void group_norm_backward(NodeLowering& node) {
  const at::ScalarType dtype = accumulated_in(node.value(1).dtype);
  const Array gradient = node.in(0, dtype), x = node.in(1, dtype);
  const int64_t groups = node.integer(8);
  const Sizes small = {x.size(0), groups, 1};
  const Array inverse = reshape(node.in(3, dtype), small);
  const Array normal = (in_groups(x, groups) - reshape(node.in(2, dtype), small)) * inverse;
  if (node.wants(0)) {
    const Array outer = node.is_none(4) ? gradient : gradient * channels(node.in(4, dtype), x);
    node.give(reshape(through_normal(in_groups(outer, groups), normal, inverse, {2}), x.sizes), 0);
  }
  const Sizes axes = all_but_channels(x);
  if (node.wants(1)) node.give(sum(gradient * reshape(normal, x.sizes), axes), 1);
  if (node.wants(2)) node.give(sum(gradient, axes), 2);
}

}  // namespace

const Rules& normalization_rules() {
  static const Rules rules = {
      {"aten::native_batch_norm", {batch_norm}},
      {"aten::native_batch_norm_backward", {batch_norm_backward}},
      {"aten::native_group_norm", {group_norm}},
      {"aten::native_group_norm_backward", {group_norm_backward}},
      {"aten::native_layer_norm", {layer_norm}},
      {"aten::native_layer_norm_backward", {layer_norm_backward}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
