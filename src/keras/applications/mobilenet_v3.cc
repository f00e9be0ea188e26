#include <array>
#include <vector>

#include "keras/applications/classifier.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/preprocessing.h"
#include "strata/keras/layers/regularization.h"
#include "strata/keras/layers/reshaping.h"
#include "strata/keras/ops.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

/// A block as the paper's table has it; minimalistic networks have no 5 x 5 windows,
/// squeeze-and-excite and hard_silu.
struct V3Block {
  double expansion;
  int64_t filters;
  int64_t window;
  int64_t stride;
  bool squeezes;
  bool hard;  ///< hard_silu, else relu
};

const std::vector<V3Block> kV3Small = {{1, 16, 3, 2, true, false},
                                       {72.0 / 16, 24, 3, 2, false, false},
                                       {88.0 / 24, 24, 3, 1, false, false},
                                       {4, 40, 5, 2, true, true},
                                       {6, 40, 5, 1, true, true},
                                       {6, 40, 5, 1, true, true},
                                       {3, 48, 5, 1, true, true},
                                       {3, 48, 5, 1, true, true},
                                       {6, 96, 5, 2, true, true},
                                       {6, 96, 5, 1, true, true},
                                       {6, 96, 5, 1, true, true}};
const std::vector<V3Block> kV3Large = {
    {1, 16, 3, 1, false, false},  {4, 24, 3, 2, false, false},  {3, 24, 3, 1, false, false},
    {3, 40, 5, 2, true, false},   {3, 40, 5, 1, true, false},   {3, 40, 5, 1, true, false},
    {6, 80, 3, 2, false, true},   {2.5, 80, 3, 1, false, true}, {2.3, 80, 3, 1, false, true},
    {2.3, 80, 3, 1, false, true}, {6, 112, 3, 1, true, true},   {6, 112, 3, 1, true, true},
    {6, 160, 5, 2, true, true},   {6, 160, 5, 1, true, true},   {6, 160, 5, 1, true, true}};

SymbolicTensor v3_conv(const SymbolicTensor& x, int64_t filters, const std::string& name) {
  return layers::Conv2D(filters, 1, {.padding = "same", .use_bias = false, .name = name})(x);
}

SymbolicTensor v3_norm(const SymbolicTensor& x, const std::string& name) {
  return layers::BatchNormalization({.momentum = 0.999, .epsilon = 1e-3, .name = name})(x);
}

SymbolicTensor v3_activation(const SymbolicTensor& x, bool hard) {
  return hard ? layers::Activation("hard_silu")(x) : layers::ReLU()(x);
}

SymbolicTensor v3_squeeze(const SymbolicTensor& input, int64_t filters, const std::string& prefix) {
  const std::string name = prefix + "squeeze_excite_";
  SymbolicTensor x =
      layers::GlobalAveragePooling2D({.keepdims = true, .name = name + "avg_pool"})(input);
  x = layers::Conv2D(detail::divisible_by_8(static_cast<double>(filters) * 0.25), 1,
                     {.padding = "same", .name = name + "conv"})(x);
  x = layers::ReLU({.name = name + "relu"})(x);
  x = layers::Conv2D(filters, 1, {.padding = "same", .name = name + "conv_1"})(x);
  x = x + 3.0;
  x = layers::ReLU({.max_value = 6.0})(x) * (1.0 / 6.0);
  return layers::Multiply({.name = name + "mul"})({input, x});
}

SymbolicTensor v3_block(const SymbolicTensor& input, const V3Block& block, size_t id,
                        const MobileNetV3Options& mobile) {
  const int64_t channels = input.shape().back();
  const int64_t expanded = detail::divisible_by_8(static_cast<double>(channels) * block.expansion);
  const int64_t filters = detail::divisible_by_8(static_cast<double>(block.filters) * mobile.alpha);
  const int64_t window = mobile.minimalistic ? 3 : block.window;
  const bool hard = block.hard && !mobile.minimalistic;
  const std::string prefix = id == 0 ? "expanded_conv_" : str_cat("expanded_conv_", id, "_");
  SymbolicTensor x = input;
  if (id > 0) {
    x = v3_norm(v3_conv(x, expanded, prefix + "expand"), prefix + "expand_bn");
    x = v3_activation(x, hard);
  }
  if (block.stride == 2) {
    x = layers::ZeroPadding2D(detail::stride_padding(x, window),
                              {.name = prefix + "depthwise_pad"})(x);
  }
  x = layers::DepthwiseConv2D(window, {.strides = block.stride,
                                       .padding = block.stride == 1 ? "same" : "valid",
                                       .use_bias = false,
                                       .name = prefix + "depthwise"})(x);
  x = v3_activation(v3_norm(x, prefix + "depthwise_bn"), hard);
  if (block.squeezes && !mobile.minimalistic) x = v3_squeeze(x, expanded, prefix);
  x = v3_norm(v3_conv(x, filters, prefix + "project"), prefix + "project_bn");
  if (block.stride != 1 || channels != filters) return x;
  return layers::Add({.name = prefix + "add"})({input, x});
}

/// @param last  The filters in front of the classifier.
keras::Model mobilenet_v3(const char* network, const std::vector<V3Block>& blocks, int64_t last,
                          const Options& options, const MobileNetV3Options& mobile) {
  keras::Shape shape = options.input_shape;
  if (shape.empty()) shape = {keras::kNone, keras::kNone, 3};
  detail::check_input_shape(network, shape, 32);
  const bool hard = !mobile.minimalistic;
  const SymbolicTensor image = keras::Input(shape);
  SymbolicTensor x = image;
  if (mobile.include_preprocessing) x = layers::Rescaling(1.0 / 127.5, {.offset = -1.0})(x);
  x = layers::Conv2D(16, 3,
                     {.strides = 2, .padding = "same", .use_bias = false, .name = "conv"})(x);
  x = v3_activation(v3_norm(x, "conv_bn"), hard);
  for (size_t i = 0; i < blocks.size(); ++i) x = v3_block(x, blocks[i], i, mobile);
  const int64_t wide = detail::divisible_by_8(static_cast<double>(x.shape().back()) * 6);
  x = v3_activation(v3_norm(v3_conv(x, wide, "conv_1"), "conv_1_bn"), hard);
  if (options.include_top) {
    if (mobile.alpha > 1) last = detail::divisible_by_8(static_cast<double>(last) * mobile.alpha);
    x = layers::GlobalAveragePooling2D({.keepdims = true})(x);
    x = layers::Conv2D(last, 1, {.padding = "same", .name = "conv_2"})(x);
    x = v3_activation(x, hard);
    if (mobile.dropout_rate > 0) x = layers::Dropout(mobile.dropout_rate)(x);
    x = layers::Conv2D(options.classes, 1, {.padding = "same", .name = "logits"})(x);
    x = layers::Flatten()(x);
    x = layers::Activation(options.classifier_activation, {.name = "predictions"})(x);
  } else {
    x = detail::pooled(x, options, "avg_pool", "max_pool");
  }
  return detail::finished(image, x, options, network);
}

}  // namespace

keras::Model MobileNetV3Small(const Options& options, const MobileNetV3Options& mobile) {
  return mobilenet_v3("MobileNetV3Small", kV3Small, 1024, options, mobile);
}
keras::Model MobileNetV3Large(const Options& options, const MobileNetV3Options& mobile) {
  return mobilenet_v3("MobileNetV3Large", kV3Large, 1280, options, mobile);
}

}  // namespace strata::applications
