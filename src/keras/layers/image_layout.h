#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "strata/core/error.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layers/option_types.h"

// Where the channels of images are, for layers that compute with them. The rule for all layers:
//
// - The user sees Keras's shape, `[batch, spatial..., channels]`.
// - Below it memory stays `[batch, channels, spatial...]`, each channel's plane in one piece: our
//   AVX-512 convolutions and pooling and libtorch's operators want it, and a view of one shape as
//   the other costs nothing. So a layer that computes planes (convolutions, pooling) takes
//   `planes()` of its input and gives `user_shape()` of a contiguous result.
// - Elementwise operators keep the strides of their input, so they need no care. Who makes new
//   tensors (noise, masks) makes them with `empty_like`; who reduces or normalizes
//   (BatchNormalization) works on `planes_view()`, without a copy.
// - A user's own batch is channels last in memory too. The first layer that wants planes copies it,
//   once; with one channel there is nothing to copy.
// - Flatten and Reshape give Keras's order of elements: there, and only there, is the copy back.
//
// Kernels have Keras's shape (kh, kw, in, out) and lie in memory as libtorch takes them
// (WeightOptions::memory_order), so that they need no copy either.
namespace strata::layers {

inline constexpr const char* kChannelsLast = "channels_last";
inline constexpr const char* kChannelsFirst = "channels_first";

/// @throws Error kInvalidArgument: neither of the two.
inline void check_data_format(std::string_view class_name, const DataFormat& data_format) {
  data_format.check(str_cat("[layers] ", class_name));
}

/// `[batch, channels, spatial...]`: a view.
inline at::Tensor planes_view(const at::Tensor& x, const std::string& data_format) {
  return data_format == kChannelsLast ? x.movedim(-1, 1) : x;
}

/// The same, contiguous. Strides of dimensions of size 1 are made the usual ones too: libtorch and
/// our kernels take others as a sign of a channels-last tensor.
inline at::Tensor planes(const at::Tensor& x, const std::string& data_format) {
  const at::Tensor y = planes_view(x, data_format).contiguous();
  return y.suggest_memory_format() == at::MemoryFormat::Contiguous ? y : y.view(y.sizes());
}

/// Back: a view.
inline at::Tensor user_shape(const at::Tensor& y, const std::string& data_format) {
  return data_format == kChannelsLast ? y.movedim(1, -1) : y;
}

inline int64_t channel_axis(size_t ndim, const std::string& data_format) {
  return data_format == kChannelsLast ? static_cast<int64_t>(ndim) - 1 : 1;
}
/// The first of the dimensions between batch and channels, or behind both.
inline size_t first_spatial_axis(const std::string& data_format) {
  return data_format == kChannelsLast ? 1 : 2;
}

/// A layer that only moves values: whole numbers stay whole numbers.
class MovingLayerImpl : public keras::UnaryLayerImpl {
 public:
  using UnaryLayerImpl::UnaryLayerImpl;

 protected:
  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>& inputs) const override {
    const at::ScalarType input = inputs.at(0);
    return {at::isFloatingType(input) ? dtype().compute_dtype() : input};
  }
};

}  // namespace strata::layers
