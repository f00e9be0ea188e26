#pragma once

#include <ATen/core/Tensor.h>

// `[batch, channels, height, width]`.
namespace strata::layers {

/// The largest middle part of the shape of height x width: a view.
at::Tensor crop_to_aspect_ratio(const at::Tensor& x, int64_t height, int64_t width);
/// That part, resized. Source: keras.utils.image_utils.smart_resize.
at::Tensor smart_resize(const at::Tensor& x, int64_t height, int64_t width);

}  // namespace strata::layers
