// Convolutions of any number of dimensions, with groups, transposed too, and their gradients.
//
// All of them are one: with x `[n, c, in...]` and weights `[o, c / groups, k...]`, an output y `[n, o, out...]`
// reads x at out * stride - padding + k * dilation. The gradient of x spreads y by the stride and turns the
// kernel round; the gradient of the weights takes y as a kernel over x, with examples and channels exchanged. A
// transposed convolution is the gradient of x of one with the same numbers, and the reverse.
#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

struct Window {
  Sizes strides, padding, dilations;
  int64_t groups;

  size_t spatial() const { return strides.size(); }
  Sizes ones() const { return Sizes(spatial(), 1); }
};

Array convolve(const Array& x, const Array& weight, const Window& window, const Sizes& sizes) {
  Sizes high;
  for (size_t d = 0; d < window.spatial(); ++d) {
    // What the last output reads, which may be less than there is.
    const int64_t end = (sizes[d + 2] - 1) * window.strides[d] +
                        (weight.sizes[d + 2] - 1) * window.dilations[d] + 1;
    high.push_back(end - x.sizes[d + 2] - window.padding[d]);
  }
  return convolution(x, weight,
                     {.strides = window.strides,
                      .low = window.padding,
                      .high = high,
                      .input_dilation = window.ones(),
                      .kernel_dilation = window.dilations,
                      .feature_groups = window.groups},
                     sizes);
}

/// `[groups * a, b, ...]` to `[groups * b, a, ...]`
Array swap_channels(const Array& weight, int64_t groups) {
  const int64_t a = weight.size(0) / groups, b = weight.size(1);
  Sizes spread = {groups, a, b}, swapped = {groups * b, a};
  spread.insert(spread.end(), weight.sizes.begin() + 2, weight.sizes.end());
  swapped.insert(swapped.end(), weight.sizes.begin() + 2, weight.sizes.end());
  return reshape(swap_axes(reshape(weight, spread), 1, 2), swapped);
}

/// The gradient of x, of `sizes`, from that of y.
Array spread(const Array& y, const Array& weight, const Window& window, const Sizes& sizes) {
  Sizes low, high, axes;
  for (size_t d = 0; d < window.spatial(); ++d) {
    const int64_t reach = (weight.sizes[d + 2] - 1) * window.dilations[d];
    low.push_back(reach - window.padding[d]);
    const int64_t dilated = (y.sizes[d + 2] - 1) * window.strides[d] + 1;
    high.push_back(sizes[d + 2] - dilated - low.back() + reach);
    axes.push_back(static_cast<int64_t>(d) + 2);
  }
  return convolution(y, reverse(swap_channels(weight, window.groups), axes),
                     {.strides = window.ones(),
                      .low = low,
                      .high = high,
                      .input_dilation = window.strides,
                      .kernel_dilation = window.dilations,
                      .feature_groups = window.groups},
                     sizes);
}

/// The gradient of weights of `sizes`.
Array weight_gradient(const Array& x, const Array& y, const Window& window, const Sizes& sizes) {
  Sizes high;
  for (size_t d = 0; d < window.spatial(); ++d) {
    const int64_t end =
        (sizes[d + 2] - 1) * window.dilations[d] + (y.sizes[d + 2] - 1) * window.strides[d] + 1;
    high.push_back(end - x.sizes[d + 2] - window.padding[d]);
  }
  return convolution(x, y,
                     {.strides = window.dilations,
                      .low = window.padding,
                      .high = high,
                      .input_dilation = window.ones(),
                      .kernel_dilation = window.strides,
                      .batch_groups = window.groups,
                      .input = {.first = 1, .second = 0},
                      .kernel = {.first = 1, .second = 0},
                      .output = {.first = 1, .second = 0}},
                     sizes);
}

Window window_of(const NodeLowering& node, size_t first, size_t spatial) {
  return {.strides = node.integers(first, spatial),
          .padding = node.integers(first + 1, spatial),
          .dilations = node.integers(first + 2, spatial),
          .groups = node.integer(first + 5)};
}

/// (x, weight, bias, stride, padding, dilation, transposed, output padding, groups)
void convolution_rule(NodeLowering& node) {
  const Array x = node.in(0), weight = node.in(1);
  const Window window = window_of(node, 3, x.sizes.size() - 2);
  Array y = node.flag(6) ? spread(x, weight, window, node.sizes())
                         : convolve(x, weight, window, node.sizes());
  if (!node.is_none(2)) y = y + along(node.in(2), y.sizes, 1);
  node.give(y);
}

/// (gradient, x, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask)
void convolution_backward(NodeLowering& node) {
  const Array gradient = node.in(0), x = node.in(1), weight = node.in(2);
  const Window window = window_of(node, 4, x.sizes.size() - 2);
  const bool transposed = node.flag(7);
  if (node.wants(0)) {
    node.give(transposed ? convolve(gradient, weight, window, x.sizes)
                         : spread(gradient, weight, window, x.sizes),
              0);
  }
  if (node.wants(1)) {
    node.give(transposed ? weight_gradient(gradient, x, window, weight.sizes)
                         : weight_gradient(x, gradient, window, weight.sizes),
              1);
  }
  if (node.wants(2)) {
    Sizes axes = all_axes(gradient.rank());
    axes.erase(axes.begin() + 1);
    node.give(sum(gradient, axes), 2);
  }
}

}  // namespace

const Rules& convolution_rules() {
  static const Rules rules = {
      {"aten::convolution", {convolution_rule}},
      {"aten::convolution_backward", {convolution_backward}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
