#include <array>

#include "keras/applications/classifier.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/regularization.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

/// Normalization and relu6 behind the convolution of this name.
SymbolicTensor mobilenet_norm_relu(const SymbolicTensor& x, const std::string& name) {
  const SymbolicTensor y = layers::BatchNormalization({.name = name + "_bn"})(x);
  return layers::ReLU({.max_value = 6.0, .name = name + "_relu"})(y);
}

struct MobileNetBlock {
  int64_t filters;
  int64_t stride;
};
constexpr std::array<MobileNetBlock, 13> kMobileNetBlocks = {{{64, 1},
                                                              {128, 2},
                                                              {128, 1},
                                                              {256, 2},
                                                              {256, 1},
                                                              {512, 2},
                                                              {512, 1},
                                                              {512, 1},
                                                              {512, 1},
                                                              {512, 1},
                                                              {512, 1},
                                                              {1024, 2},
                                                              {1024, 1}}};

int64_t mobilenet_scaled(int64_t filters, double alpha) {
  return static_cast<int64_t>(static_cast<double>(filters) * alpha);
}

SymbolicTensor mobilenet_block(SymbolicTensor x, const MobileNetBlock& block, size_t id,
                               const MobileNetOptions& mobile) {
  const bool halves = block.stride == 2;
  if (halves) x = layers::ZeroPadding2D({{0, 1}, {0, 1}}, {.name = str_cat("conv_pad_", id)})(x);
  const std::string depthwise = str_cat("conv_dw_", id), pointwise = str_cat("conv_pw_", id);
  x = layers::DepthwiseConv2D(3, {.strides = block.stride,
                                  .padding = halves ? "valid" : "same",
                                  .depth_multiplier = mobile.depth_multiplier,
                                  .use_bias = false,
                                  .name = depthwise})(x);
  x = mobilenet_norm_relu(x, depthwise);
  x = layers::Conv2D(mobilenet_scaled(block.filters, mobile.alpha), 1,
                     {.padding = "same", .use_bias = false, .name = pointwise})(x);
  return mobilenet_norm_relu(x, pointwise);
}

}  // namespace

keras::Model MobileNet(const Options& options, const MobileNetOptions& mobile) {
  const keras::Shape shape = detail::input_shape("MobileNet", options, 224, 32);
  const SymbolicTensor image = keras::Input(shape);
  SymbolicTensor x =
      layers::Conv2D(mobilenet_scaled(32, mobile.alpha), 3,
                     {.strides = 2, .padding = "same", .use_bias = false, .name = "conv1"})(image);
  x = mobilenet_norm_relu(x, "conv1");
  for (size_t i = 0; i < kMobileNetBlocks.size(); ++i) {
    x = mobilenet_block(x, kMobileNetBlocks[i], i + 1, mobile);
  }
  if (options.include_top) {
    x = layers::GlobalAveragePooling2D({.keepdims = true})(x);
    x = layers::Dropout(mobile.dropout, {.name = "dropout"})(x);
    x = layers::Conv2D(options.classes, 1, {.padding = "same", .name = "conv_preds"})(x);
    x = layers::Reshape({options.classes}, {.name = "reshape_2"})(x);
    x = layers::Activation(options.classifier_activation, {.name = "predictions"})(x);
  } else {
    x = detail::pooled(x, options, "", "");
  }
  return detail::finished(image, x, options, detail::sized_name("mobilenet", mobile.alpha, shape));
}

}  // namespace strata::applications
