#include "keras/applications/efficientnet_blocks.h"

#include <algorithm>
#include <cmath>

#include "keras/applications/classifier.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/regularization.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::applications::detail {
namespace {

using keras::SymbolicTensor;

initializers::Initializer efficient_kernel() {
  return initializers::VarianceScaling({.scale = 2, .mode = "fan_out"});
}

/// Weighs the channels by what a quarter of `filters_in` units make of their means.
SymbolicTensor squeeze_excite(const SymbolicTensor& x, const EfficientBlock& block) {
  const int64_t filters = x.shape().back();
  const std::string name = block.name + "se_";
  SymbolicTensor weights = layers::GlobalAveragePooling2D({.name = name + "squeeze"})(x);
  weights = layers::Reshape({1, 1, filters}, {.name = name + "reshape"})(weights);
  weights = layers::Conv2D(std::max<int64_t>(1, block.filters_in / 4), 1,
                           {.padding = "same",
                            .activation = "silu",
                            .kernel_initializer = efficient_kernel(),
                            .name = name + "reduce"})(weights);
  weights = layers::Conv2D(filters, 1,
                           {.padding = "same",
                            .activation = "sigmoid",
                            .kernel_initializer = efficient_kernel(),
                            .name = name + "expand"})(weights);
  return layers::Multiply({.name = name + "excite"})({x, weights});
}

}  // namespace

SymbolicTensor efficient_conv(const SymbolicTensor& x, int64_t filters, const std::string& name,
                              const EfficientConv& options) {
  return layers::Conv2D(filters, options.window,
                        {.strides = options.strides,
                         .padding = options.padding,
                         .use_bias = false,
                         .kernel_initializer = efficient_kernel(),
                         .name = name})(x);
}

SymbolicTensor efficient_norm(const SymbolicTensor& x, const std::string& name, double momentum) {
  return layers::BatchNormalization({.axis = 3, .momentum = momentum, .name = name})(x);
}

SymbolicTensor efficient_silu(const SymbolicTensor& x, const std::string& name) {
  return layers::Activation("silu", {.name = name})(x);
}

std::string efficient_name(size_t stack, int64_t block) {
  return str_cat("block", stack + 1, static_cast<char>('a' + block), "_");
}

int64_t efficient_repeats(int64_t repeats, double depth) {
  return static_cast<int64_t>(std::ceil(depth * static_cast<double>(repeats)));
}

SymbolicTensor inverted_bottleneck(const SymbolicTensor& input, const EfficientBlock& block,
                                   bool is_v2) {
  const double momentum = is_v2 ? kV2Momentum : kV1Momentum;
  const std::string& name = block.name;
  SymbolicTensor x = input;
  if (block.expand_ratio != 1) {
    x = efficient_conv(x, block.filters_in * block.expand_ratio, name + "expand_conv");
    x = efficient_silu(efficient_norm(x, name + "expand_bn", momentum), name + "expand_activation");
  }
  const bool pads = block.strides == 2 && !is_v2;
  if (pads) {
    x = layers::ZeroPadding2D(stride_padding(x, block.window), {.name = name + "dwconv_pad"})(x);
  }
  x = layers::DepthwiseConv2D(block.window, {.strides = block.strides,
                                             .padding = pads ? "valid" : "same",
                                             .use_bias = false,
                                             .depthwise_initializer = efficient_kernel(),
                                             .name = name + (is_v2 ? "dwconv2" : "dwconv")})(x);
  x = efficient_silu(efficient_norm(x, name + "bn", momentum), name + "activation");
  x = squeeze_excite(x, block);
  x = efficient_conv(x, block.filters_out, name + "project_conv");
  return efficient_sum(efficient_norm(x, name + "project_bn", momentum), input, block);
}

SymbolicTensor efficient_sum(const SymbolicTensor& x, const SymbolicTensor& input,
                             const EfficientBlock& block) {
  if (block.strides != 1 || block.filters_in != block.filters_out) return x;
  SymbolicTensor y = x;
  if (block.drop_rate > 0) {
    y = layers::Dropout(block.drop_rate,
                        {.noise_shape = {{std::nullopt, 1, 1, 1}}, .name = block.name + "drop"})(y);
  }
  return layers::Add({.name = block.name + "add"})({y, input});
}

SymbolicTensor efficient_end(const SymbolicTensor& x, const Options& options, int64_t filters,
                             bool is_v2, double dropout) {
  SymbolicTensor y = efficient_conv(x, filters, "top_conv");
  y = efficient_silu(efficient_norm(y, "top_bn", is_v2 ? kV2Momentum : kV1Momentum),
                     "top_activation");
  if (!options.include_top) return pooled(y, options, "avg_pool", "max_pool");
  y = layers::GlobalAveragePooling2D({.name = "avg_pool"})(y);
  y = layers::Dropout(dropout, {.name = "top_dropout"})(y);
  // The same values, under another name in files.
  const initializers::Initializer zeros =
      is_v2 ? initializers::Initializer(initializers::Constant(0)) : "zeros";
  return layers::Dense(options.classes,
                       {.activation = options.classifier_activation,
                        .kernel_initializer = initializers::VarianceScaling(
                            {.scale = 1.0 / 3, .mode = "fan_out", .distribution = "uniform"}),
                        .bias_initializer = zeros,
                        .name = "predictions"})(y);
}

}  // namespace strata::applications::detail
