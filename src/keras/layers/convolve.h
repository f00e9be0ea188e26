#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>

#include <algorithm>
#include <vector>

#include "keras/layers/image_layout.h"
#include "keras/layers/kernel_weights.h"
#include "keras/layers/windows.h"

// What the convolution layers share.
namespace strata::layers {

/// The axes of a kernel (spatial..., a, b) in the order (b, a, spatial...) or (a, b, spatial...).
inline std::vector<int64_t> kernel_order(size_t n, bool last_first) {
  const auto ndim = static_cast<int64_t>(n);
  std::vector<int64_t> order = {ndim, ndim + 1};
  if (last_first) std::swap(order[0], order[1]);
  for (int64_t i = 0; i < ndim; ++i) order.push_back(i);
  return order;
}

/// As libtorch's operators and strata's take it.
inline at::Tensor plain_kernel(const at::Tensor& kernel, bool last_first) {
  const at::Tensor y =
      kernel.permute(kernel_order(static_cast<size_t>(kernel.dim()) - 2, last_first)).contiguous();
  return y.suggest_memory_format() == at::MemoryFormat::Contiguous ? y : y.view(y.sizes());
}

/// @param x       `[batch, channels, spatial...]`, contiguous.
/// @param kernel  `[out, in / groups, spatial...]`.
inline at::Tensor convolve(at::Tensor x, const at::Tensor& kernel, const at::Tensor& bias,
                           const Windows& windows, int64_t groups) {
  const size_t n = windows.size.size();
  std::vector<int64_t> symmetric(n), edges(2 * n);
  bool even = true;
  for (size_t i = 0; i < n; ++i) {
    const auto [before, after] = windows.pad(i, x.size(static_cast<int64_t>(i) + 2));
    even = even && before == after;
    symmetric[i] = before;
    edges[2 * (n - 1 - i)] = before;  // the last dimension comes first
    edges[2 * (n - 1 - i) + 1] = after;
  }
  if (!even) {
    x = at::constant_pad_nd(x, edges);
    std::fill(symmetric.begin(), symmetric.end(), 0);
  }
  return at::convolution(x, kernel, bias, windows.strides, symmetric, windows.dilation, false,
                         std::vector<int64_t>(n), groups);
}

/// The number of channels, which must be known. @throws Error kInvalidArgument
inline int64_t known_channels(const std::string& layer, const keras::Shape& input,
                              const std::string& data_format) {
  const int64_t channels = input[static_cast<size_t>(channel_axis(input.size(), data_format))];
  STRATA_CHECK(channels != keras::kNone, kInvalidArgument, "[keras] layer '", layer,
               "': got input of shape ", keras::to_string(input),
               "; the number of channels must be known");
  return channels;
}

/// Strides or dilation, not both.
inline void check_strides(std::string_view class_name, at::IntArrayRef strides,
                          at::IntArrayRef dilation) {
  const bool strided = std::any_of(strides.begin(), strides.end(), [](auto s) { return s > 1; });
  const bool dilated = std::any_of(dilation.begin(), dilation.end(), [](auto d) { return d > 1; });
  STRATA_CHECK(!strided || !dilated, kInvalidArgument, "[layers] ", class_name,
               ": `strides > 1` not supported in conjunction with `dilation_rate > 1`. Received: "
               "strides=",
               keras::to_string(strides.vec()),
               " and dilation_rate=", keras::to_string(dilation.vec()));
}

inline void check_filters(std::string_view class_name, int64_t filters) {
  STRATA_CHECK(filters > 0, kInvalidArgument, "[layers] ", class_name, ": got filters=", filters,
               "; expected a positive integer");
}

/// What all of them check first.
template <typename Arguments>
void check_window_options(const std::string& name, const Arguments& arguments, bool allow_causal) {
  const auto& options = arguments.options;
  check_positive(name, "kernel_size", arguments.kernel_size.values);
  check_positive(name, "strides", options.strides.values);
  check_positive(name, "dilation_rate", options.dilation_rate.values);
  check_padding(name, options.padding, allow_causal);
  check_data_format(name, options.data_format);
}

/// What a built layer expects: a fixed number of channels.
inline keras::InputSpec expect_channels(size_t n, const std::string& data_format,
                                        int64_t channels) {
  return {.min_ndim = static_cast<int64_t>(n) + 2,
          .axes = {{data_format == kChannelsLast ? -1 : 1, channels}}};
}

/// The config of Conv and ConvTranspose.
template <typename Config, typename Arguments>
void visit_conv(Config& config, Arguments& conv) {
  auto& options = conv.options;
  config("filters", conv.filters);
  config("kernel_size", conv.kernel_size);
  config("strides", options.strides);
  config("padding", options.padding);
  if constexpr (requires { options.output_padding; })
    config("output_padding", options.output_padding);
  config("data_format", options.data_format);
  config("dilation_rate", options.dilation_rate);
  if constexpr (requires { options.groups; }) config("groups", options.groups);
  config("activation", options.activation);
  config("use_bias", options.use_bias);
  visit_kernel_and_bias(config, options);
}

/// "Conv2D"
inline std::string numbered(const char* before, size_t n, const char* after) {
  return before + std::to_string(n) + after;
}

}  // namespace strata::layers
