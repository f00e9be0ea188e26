#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool1d.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/adaptive_max_pool1d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/adaptive_max_pool3d.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/col2im.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/im2col.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/ones.h>

#include <limits>

#include "keras/layers/convolve.h"
#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

std::string format_of(C call) { return call.text("data_format", layers::kChannelsLast); }

/// One number for each of `n` dimensions.
std::vector<int64_t> repeated(C call, const char* name, size_t n, int64_t otherwise) {
  std::vector<int64_t> values = call.integers(name);
  if (values.empty()) values = {otherwise};
  STRATA_CHECK(values.size() == 1 || values.size() == n, kInvalidArgument,
               "[keras] operation: got ", values.size(), " numbers as ", name, " for ", n,
               " dimensions");
  values.resize(n, values[0]);
  return values;
}

/// What the options say of windows of these sizes.
struct WindowOptions {
  std::vector<int64_t> size, strides, dilation;
  layers::Padding padding;

  WindowOptions(C call, std::vector<int64_t> sizes, bool strides_are_sizes)
      : size(std::move(sizes)),
        strides(strides_are_sizes && call.option("strides").is_null()
                    ? size
                    : repeated(call, "strides", size.size(), 1)),
        dilation(repeated(call, "dilation_rate", size.size(), 1)),
        padding(call.text("padding", "valid")) {
    layers::check_padding("operation", padding, /*allow_causal=*/true);
  }
  layers::Windows windows() const { return {size, strides, dilation, padding}; }
};

at::Tensor convolved(C call, const at::Tensor& x, const at::Tensor& kernel, int64_t groups,
                     const WindowOptions& options) {
  return layers::user_shape(
      layers::convolve(layers::planes(x, format_of(call)), kernel, {}, options.windows(), groups),
      format_of(call));
}

std::vector<int64_t> sizes_of_kernel(const at::Tensor& kernel) {
  return kernel.sizes().slice(0, static_cast<size_t>(kernel.dim()) - 2).vec();
}

at::Tensor conv(C call) {
  const Tensors both = promoted({call.tensor(0, "inputs"), call.tensor(1, "kernel")});
  const at::Tensor &x = both[0], &kernel = both[1];
  const int64_t channels =
      x.size(layers::channel_axis(static_cast<size_t>(x.dim()), format_of(call)));
  return convolved(call, x, layers::plain_kernel(kernel, true),
                   channels / std::max<int64_t>(kernel.size(-2), 1),
                   WindowOptions(call, sizes_of_kernel(kernel), false));
}

/// @param kernel  (spatial..., in, multiplier).
at::Tensor depthwise(C call, const at::Tensor& x, const at::Tensor& kernel) {
  const at::Tensor plain = layers::plain_kernel(kernel, false);  // in, multiplier, spatial...
  return convolved(call, x, plain.flatten(0, 1).unsqueeze(1), kernel.size(-2),
                   WindowOptions(call, sizes_of_kernel(kernel), false));
}

at::Tensor separable_conv(C call) {
  const at::Tensor y =
      depthwise(call, call.tensor(0, "inputs"), call.tensor(1, "depthwise_kernel"));
  const at::Tensor pointwise = call.tensor(2, "pointwise_kernel");
  const std::vector<int64_t> ones(static_cast<size_t>(pointwise.dim()) - 2, 1);
  const layers::Padding valid("valid");
  return layers::user_shape(
      layers::convolve(layers::planes(y, format_of(call)), layers::plain_kernel(pointwise, true),
                       {}, {ones, ones, ones, valid}, 1),
      format_of(call));
}

/// libtorch crops as much in front as behind; what Keras crops or adds beyond that is behind.
at::Tensor conv_transpose(C call) {
  const Tensors both = promoted({call.tensor(0, "inputs"), call.tensor(1, "kernel")});
  const at::Tensor &x = both[0], &kernel = both[1];
  const WindowOptions options(call, sizes_of_kernel(kernel), false);
  const size_t n = options.size.size();
  const bool padded = !call.option("output_padding").is_null();
  const std::vector<int64_t> more =
      padded ? repeated(call, "output_padding", n, 0) : std::vector<int64_t>(n);
  const at::Tensor input = layers::planes(x, format_of(call));
  std::vector<int64_t> crop(n), extra(n), wanted(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t size = input.size(static_cast<int64_t>(i) + 2), stride = options.strides[i];
    const int64_t span = options.windows().span(i), full = (size - 1) * stride + span;
    if (options.padding == "valid") {
      wanted[i] = full + (padded ? more[i] : std::max<int64_t>(stride - span, 0));
    } else {
      wanted[i] = padded ? (size - 1) * stride + span % 2 + more[i] : size * stride;
      crop[i] = std::max<int64_t>(full - wanted[i], 0) / 2;
    }
    extra[i] = std::max<int64_t>(wanted[i] - (full - 2 * crop[i]), 0);
  }
  at::Tensor y = at::convolution(input, layers::plain_kernel(kernel, true), {}, options.strides,
                                 crop, options.dilation, true, extra, 1);
  for (size_t i = 0; i < n; ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    if (y.size(dim) > wanted[i]) y = y.narrow(dim, 0, wanted[i]);
  }
  return layers::user_shape(y, format_of(call));
}

at::Tensor pooled(const at::Tensor& x, at::IntArrayRef size, at::IntArrayRef strides,
                  bool largest) {
  switch (size.size()) {
    case 1:
      return largest ? at::max_pool1d(x, size, strides) : at::avg_pool1d(x, size, strides);
    case 2:
      return largest ? at::max_pool2d(x, size, strides) : at::avg_pool2d(x, size, strides);
    default:
      return largest ? at::max_pool3d(x, size, strides) : at::avg_pool3d(x, size, strides);
  }
}

/// Padding counts neither as a value nor, in an average, as one of them.
at::Tensor pool(C call, bool largest) {
  const at::Tensor x = layers::planes(call.tensor(0, "inputs"), format_of(call));
  const auto n = static_cast<size_t>(x.dim()) - 2;
  STRATA_CHECK(n >= 1 && n <= 3, kInvalidArgument, "[keras] pooling: got ", x.dim(),
               " dimensions; expected 3 to 5");
  const WindowOptions options(call, repeated(call, "pool_size", n, 1), true);
  std::vector<int64_t> edges(2 * n);
  bool even = true;
  for (size_t i = 0; i < n; ++i) {
    const auto [before, after] = options.windows().pad(i, x.size(static_cast<int64_t>(i) + 2));
    edges[2 * (n - 1 - i)] = before;
    edges[2 * (n - 1 - i) + 1] = after;
    even = even && before == 0 && after == 0;
  }
  at::Tensor y;
  if (even) {
    y = pooled(x, options.size, options.strides, largest);
  } else if (largest) {
    y = pooled(at::constant_pad_nd(x, edges, -std::numeric_limits<double>::infinity()),
               options.size, options.strides, true);
  } else {
    std::vector<int64_t> shape = x.sizes().vec();
    shape[0] = shape[1] = 1;
    const at::Tensor part = pooled(at::constant_pad_nd(at::ones(shape, x.options()), edges),
                                   options.size, options.strides, false);
    y = pooled(at::constant_pad_nd(x, edges), options.size, options.strides, false) / part;
  }
  return layers::user_shape(y, format_of(call));
}

at::Tensor adaptive_pool(C call, bool largest) {
  const at::Tensor x = layers::planes(call.tensor(0, "inputs"), format_of(call));
  const std::vector<int64_t> to =
      repeated(call, "output_size", static_cast<size_t>(x.dim()) - 2, 1);
  at::Tensor y;
  switch (to.size()) {
    case 1:
      y = largest ? std::get<0>(at::adaptive_max_pool1d(x, to)) : at::adaptive_avg_pool1d(x, to);
      break;
    case 2:
      y = largest ? std::get<0>(at::adaptive_max_pool2d(x, to)) : at::adaptive_avg_pool2d(x, to);
      break;
    default:
      y = largest ? std::get<0>(at::adaptive_max_pool3d(x, to)) : at::adaptive_avg_pool3d(x, to);
  }
  return layers::user_shape(y, format_of(call));
}

/// Blocks of pixels as channels, or back.
at::Tensor depth_to_space(C call) {
  const at::Tensor x = call.tensor(0, "x");
  const int64_t b = call.integer("block_size", 2), n = x.size(0);
  if (format_of(call) == layers::kChannelsLast) {
    const int64_t h = x.size(1), w = x.size(2), c = x.size(3) / (b * b);
    return x.reshape({n, h, w, b, b, c}).permute({0, 1, 3, 2, 4, 5}).reshape({n, h * b, w * b, c});
  }
  const int64_t h = x.size(2), w = x.size(3), c = x.size(1) / (b * b);
  return x.reshape({n, c, b, b, h, w}).permute({0, 1, 4, 2, 5, 3}).reshape({n, c, h * b, w * b});
}
at::Tensor space_to_depth(C call) {
  const at::Tensor x = call.tensor(0, "x");
  const int64_t b = call.integer("block_size", 2), n = x.size(0);
  if (format_of(call) == layers::kChannelsLast) {
    const int64_t h = x.size(1) / b, w = x.size(2) / b, c = x.size(3);
    return x.reshape({n, h, b, w, b, c}).permute({0, 1, 3, 2, 4, 5}).reshape({n, h, w, c * b * b});
  }
  const int64_t h = x.size(2) / b, w = x.size(3) / b, c = x.size(1);
  return x.reshape({n, c, h, b, w, b}).permute({0, 1, 3, 5, 2, 4}).reshape({n, c * b * b, h, w});
}

at::Tensor extract_patches(C call) {
  const at::Tensor given = call.tensor(0, "images");
  const size_t n = call.integers("size").size() == 3 ? 3 : 2;
  const bool single = static_cast<size_t>(given.dim()) == n + 1;
  const at::Tensor x = single ? given.unsqueeze(0) : given;
  const std::vector<int64_t> size = repeated(call, "size", n, 1);
  const int64_t channels =
      x.size(layers::channel_axis(static_cast<size_t>(x.dim()), format_of(call)));
  int64_t all = channels;
  std::vector<int64_t> shape = size;
  for (const int64_t each : size) all *= each;
  shape.push_back(channels);
  shape.push_back(all);
  const at::Tensor kernel = at::eye(all, x.options()).reshape(shape);
  const at::Tensor y =
      convolved(call, x, layers::plain_kernel(kernel, true), 1, WindowOptions(call, size, true));
  return single ? y.squeeze(0) : y;
}

const OperationRow kWindowRows[] = {
    one("nn", "Conv", conv, "strides padding data_format dilation_rate"),
    one("nn", "ConvTranspose", conv_transpose,
        "strides padding output_padding data_format dilation_rate"),
    one(
        "nn", "DepthwiseConv",
        [](C call) { return depthwise(call, call.tensor(0, "inputs"), call.tensor(1, "kernel")); },
        "strides padding data_format dilation_rate"),
    one("nn", "SeparableConv", separable_conv, "strides padding data_format dilation_rate"),
    one(
        "nn", "MaxPool", [](C call) { return pool(call, true); },
        "pool_size strides padding data_format"),
    one(
        "nn", "AveragePool", [](C call) { return pool(call, false); },
        "pool_size strides padding data_format"),
    one(
        "nn", "AdaptiveMaxPool", [](C call) { return adaptive_pool(call, true); },
        "output_size data_format"),
    one(
        "nn", "AdaptiveAveragePool", [](C call) { return adaptive_pool(call, false); },
        "output_size data_format"),
    one("nn", "DepthToSpace", depth_to_space, "block_size data_format"),
    one("nn", "SpaceToDepth", space_to_depth, "block_size data_format"),
    one(
        "nn", "Unfold",
        [](C call) {
          return at::im2col(call.tensor(0, "x"), repeated(call, "kernel_size", 2, 1),
                            repeated(call, "dilation", 2, 1), repeated(call, "padding", 2, 0),
                            repeated(call, "stride", 2, 1));
        },
        "kernel_size dilation padding stride"),
    one(
        "nn", "Fold",
        [](C call) {
          return at::col2im(call.tensor(0, "x"), repeated(call, "output_size", 2, 1),
                            repeated(call, "kernel_size", 2, 1), repeated(call, "dilation", 2, 1),
                            repeated(call, "padding", 2, 0), repeated(call, "stride", 2, 1));
        },
        "output_size kernel_size dilation padding stride"),
    one("image", "ExtractPatches", extract_patches,
        "size strides dilation_rate padding data_format"),
};

}  // namespace

std::span<const OperationRow> window_operations() { return kWindowRows; }

}  // namespace strata::keras::detail
