#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "strata/keras/layers/option_types.h"

namespace strata::layers {

/// @throws Error kInvalidArgument: not one of "nearest", "bilinear", "bicubic", "lanczos3",
///         "lanczos5".
void check_interpolation(std::string_view class_name, const Interpolation& interpolation);

/// @throws Error kInvalidArgument: not one of "nearest", "bilinear".
void check_nearest_or_bilinear(std::string_view class_name, const Interpolation& interpolation);

/// Images of another size, as tf.image.resize: centres of pixels at half numbers.
/// @param x         `[batch, channels, height, width]`, contiguous, floating.
/// @param antialias  Averages over all that a smaller image's pixel covers.
at::Tensor resize_images(const at::Tensor& x, int64_t height, int64_t width,
                         const std::string& interpolation, bool antialias);

}  // namespace strata::layers
