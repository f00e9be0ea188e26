#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace strata::layers {

struct AffineRule {
  const std::string& fill_mode;      ///< "reflect", "wrap", "constant" or "nearest"
  const std::string& interpolation;  ///< "bilinear" or "nearest"
  double fill_value;
};

/// Pixel (x, y) of the result is what is at (a0 x + a1 y + a2, b0 x + b1 y + b2) of the image.
/// @param images  `[batch, channels, height, width]`.
/// @param matrix  `[batch, 6]`, float32: a0, a1, a2, b0, b1, b2.
/// Source: tf.raw_ops.ImageProjectiveTransformV3.
at::Tensor transform_affine(const at::Tensor& images, const at::Tensor& matrix,
                            const AffineRule& rule);

}  // namespace strata::layers
