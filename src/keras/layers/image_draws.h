#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "keras/layers/random_factor.h"

// What layers draw for the images of a batch, and ranges of pixels.
namespace strata::layers {

/// A number for each image, as `[batch, 1, 1, 1]` of x's dtype.
inline at::Tensor draws(const at::Tensor& x, double from, double to) {
  return at::empty({x.size(0)}, x.options().dtype(at::kFloat))
      .uniform_(from, to)
      .to(x.scalar_type())
      .view({-1, 1, 1, 1});
}
inline at::Tensor draws(const at::Tensor& x, const Factor& factor) {
  return draws(x, factor.lower, factor.upper);
}
/// True with a probability that is drawn, too.
inline at::Tensor chosen(const at::Tensor& x, const Factor& probability) {
  return draws(x, 0, 1) < draws(x, probability);
}

inline at::Tensor rescaled(const at::Tensor& x, const ValueRange& from, const ValueRange& to) {
  if (from.lower == to.lower && from.upper == to.upper) return x;
  return (x - from.lower) / (from.upper - from.lower) * (to.upper - to.lower) + to.lower;
}

inline constexpr ValueRange kBytes = {0, 255};
inline constexpr ValueRange kUnit = {0, 1};

}  // namespace strata::layers
