#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "strata/keras/layer.h"

namespace strata::keras::detail {

struct InterpolationRule {
  int64_t order;          ///< 0: the nearest value; 1: linear.
  std::string fill_mode;  ///< "constant", "nearest", "wrap", "mirror" or "reflect".
  double fill_value;      ///< Of "constant": what is outside.
};

/// The values at places between elements.
/// @param input        `[batch, channels, size...]`.
/// @param coordinates  One for each of the sizes, `[batch, places]`, counted in elements.
/// @return `[batch, channels, places]`.
/// @throws Error kInvalidArgument: another order or mode.
/// Source: scipy.ndimage.map_coordinates.
at::Tensor interpolate(const at::Tensor& input, const Tensors& coordinates,
                       const InterpolationRule& rule);

}  // namespace strata::keras::detail
