#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "strata/keras/layers/option_types.h"
#include "strata/keras/shape.h"

// Windows that slide over the spatial dimensions, as convolutions and pooling have them.
namespace strata::layers {

/// One number for each spatial dimension. Refers to the layer's options.
struct Windows {
  at::IntArrayRef size;
  at::IntArrayRef strides;
  at::IntArrayRef dilation;
  const Padding& padding;

  /// From a window's first element to its last, along dimension `i`.
  int64_t span(size_t i) const { return (size[i] - 1) * dilation[i] + 1; }
  /// Elements that are put before and behind `input` along dimension `i`. Keras's 'same' puts the
  /// odd one behind.
  std::pair<int64_t, int64_t> pad(size_t i, int64_t input) const;
  /// kNone stays kNone.
  int64_t output_size(size_t i, int64_t input) const;
};

/// The whole output shape, with `channels`.
/// @param layer  Its name, for messages.
/// @param what   "kernel_size" or "pool_size".
/// @throws Error kInvalidArgument: a size that would be 0 or less, as Keras words it; another
///         number of dimensions than windows and two.
keras::Shape windowed_shape(const std::string& layer, const char* what, const Windows& windows,
                            const keras::Shape& input, const std::string& data_format,
                            int64_t channels);

/// @throws Error kInvalidArgument: not one of those.
void check_padding(std::string_view class_name, const Padding& padding, bool allow_causal);
/// @throws Error kInvalidArgument: one that is 0 or less.
void check_positive(std::string_view class_name, const char* option, at::IntArrayRef sizes);

}  // namespace strata::layers
