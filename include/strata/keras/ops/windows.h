#pragma once

#include "strata/keras/ops/call.h"

/// Convolutions, pooling, blocks of pixels.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

// Images are `[batch, spatial..., channels]`, or with `data_format = "channels_first"`; kernels have
// Keras's shapes. @param padding  "valid" or "same".
inline Value auto conv(const Value auto& inputs, const Value auto& kernel,
                       const Numbers& strides = 1, const std::string& padding = "valid",
                       const std::string& data_format = "channels_last",
                       const Numbers& dilation_rate = 1) {
  return call("Conv",
              {{"strides", strides},
               {"padding", padding},
               {"data_format", data_format},
               {"dilation_rate", dilation_rate}},
              inputs, kernel);
}
inline Value auto depthwise_conv(const Value auto& inputs, const Value auto& kernel,
                                 const Numbers& strides = 1, const std::string& padding = "valid",
                                 const std::string& data_format = "channels_last",
                                 const Numbers& dilation_rate = 1) {
  return call("DepthwiseConv",
              {{"strides", strides},
               {"padding", padding},
               {"data_format", data_format},
               {"dilation_rate", dilation_rate}},
              inputs, kernel);
}
inline Value auto separable_conv(const Value auto& inputs, const Value auto& depthwise_kernel,
                                 const Value auto& pointwise_kernel, const Numbers& strides = 1,
                                 const std::string& padding = "valid",
                                 const std::string& data_format = "channels_last",
                                 const Numbers& dilation_rate = 1) {
  return call("SeparableConv",
              {{"strides", strides},
               {"padding", padding},
               {"data_format", data_format},
               {"dilation_rate", dilation_rate}},
              inputs, depthwise_kernel, pointwise_kernel);
}
inline Value auto conv_transpose(const Value auto& inputs, const Value auto& kernel,
                                 const Numbers& strides = 1, const std::string& padding = "valid",
                                 const Numbers& output_padding = std::nullopt,
                                 const std::string& data_format = "channels_last",
                                 const Numbers& dilation_rate = 1) {
  return call("ConvTranspose",
              {{"strides", strides},
               {"padding", padding},
               {"output_padding", output_padding},
               {"data_format", data_format},
               {"dilation_rate", dilation_rate}},
              inputs, kernel);
}
/// @param strides  Unset: pool_size.
inline Value auto max_pool(const Value auto& inputs, const Numbers& pool_size,
                           const Numbers& strides = std::nullopt,
                           const std::string& padding = "valid",
                           const std::string& data_format = "channels_last") {
  return call("MaxPool",
              {{"pool_size", pool_size},
               {"strides", strides},
               {"padding", padding},
               {"data_format", data_format}},
              inputs);
}
/// @param strides  Unset: pool_size.
inline Value auto average_pool(const Value auto& inputs, const Numbers& pool_size,
                               const Numbers& strides = std::nullopt,
                               const std::string& padding = "valid",
                               const std::string& data_format = "channels_last") {
  return call("AveragePool",
              {{"pool_size", pool_size},
               {"strides", strides},
               {"padding", padding},
               {"data_format", data_format}},
              inputs);
}
inline Value auto adaptive_max_pool(const Value auto& inputs, const Numbers& output_size,
                                    const std::string& data_format = "channels_last") {
  return call("AdaptiveMaxPool", {{"output_size", output_size}, {"data_format", data_format}},
              inputs);
}
inline Value auto adaptive_average_pool(const Value auto& inputs, const Numbers& output_size,
                                        const std::string& data_format = "channels_last") {
  return call("AdaptiveAveragePool", {{"output_size", output_size}, {"data_format", data_format}},
              inputs);
}
inline Value auto depth_to_space(const Value auto& x, int64_t block_size,
                                 const std::string& data_format = "channels_last") {
  return call("DepthToSpace", {{"block_size", block_size}, {"data_format", data_format}}, x);
}
inline Value auto space_to_depth(const Value auto& x, int64_t block_size,
                                 const std::string& data_format = "channels_last") {
  return call("SpaceToDepth", {{"block_size", block_size}, {"data_format", data_format}}, x);
}
/// Windows of `[batch, channels, height, width]` as columns, and back (overlaps are added).
inline Value auto unfold(const Value auto& x, const Numbers& kernel_size,
                         const Numbers& dilation = 1, const Numbers& padding = 0,
                         const Numbers& stride = 1) {
  return call("Unfold",
              {{"kernel_size", kernel_size},
               {"dilation", dilation},
               {"padding", padding},
               {"stride", stride}},
              x);
}
inline Value auto fold(const Value auto& x, const Numbers& output_size, const Numbers& kernel_size,
                       const Numbers& dilation = 1, const Numbers& padding = 0,
                       const Numbers& stride = 1) {
  return call("Fold",
              {{"output_size", output_size},
               {"kernel_size", kernel_size},
               {"dilation", dilation},
               {"padding", padding},
               {"stride", stride}},
              x);
}

}  // namespace strata::keras::ops
