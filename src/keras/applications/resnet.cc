#include <array>

#include "keras/applications/classifier.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

SymbolicTensor resnet_norm(const SymbolicTensor& x, const std::string& name) {
  return layers::BatchNormalization({.axis = 3, .epsilon = 1.001e-5, .name = name})(x);
}

SymbolicTensor relu(const SymbolicTensor& x, const std::string& name) {
  return layers::Activation("relu", {.name = name})(x);
}

SymbolicTensor resnet_block(const SymbolicTensor& input, int64_t filters, int64_t stride,
                            bool shortcut, const std::string& name) {
  SymbolicTensor beside = input;
  if (shortcut) {
    beside = layers::Conv2D(4 * filters, 1, {.strides = stride, .name = name + "_0_conv"})(input);
    beside = resnet_norm(beside, name + "_0_bn");
  }
  SymbolicTensor x =
      layers::Conv2D(filters, 1, {.strides = stride, .name = name + "_1_conv"})(input);
  x = relu(resnet_norm(x, name + "_1_bn"), name + "_1_relu");
  x = layers::Conv2D(filters, 3, {.padding = "same", .name = name + "_2_conv"})(x);
  x = relu(resnet_norm(x, name + "_2_bn"), name + "_2_relu");
  x = layers::Conv2D(4 * filters, 1, {.name = name + "_3_conv"})(x);
  x = resnet_norm(x, name + "_3_bn");
  x = layers::Add({.name = name + "_add"})({beside, x});
  return relu(x, name + "_out");
}

/// With the normalization in front of the convolutions.
SymbolicTensor resnet_v2_block(const SymbolicTensor& input, int64_t filters, int64_t stride,
                               bool shortcut, const std::string& name) {
  const SymbolicTensor front = relu(resnet_norm(input, name + "_preact_bn"), name + "_preact_relu");
  SymbolicTensor beside = input;
  if (shortcut) {
    beside = layers::Conv2D(4 * filters, 1, {.strides = stride, .name = name + "_0_conv"})(front);
  } else if (stride > 1) {
    beside = layers::MaxPooling2D(1, {.strides = stride})(input);
  }
  SymbolicTensor x =
      layers::Conv2D(filters, 1, {.use_bias = false, .name = name + "_1_conv"})(front);
  x = relu(resnet_norm(x, name + "_1_bn"), name + "_1_relu");
  x = layers::ZeroPadding2D(1, {.name = name + "_2_pad"})(x);
  x = layers::Conv2D(filters, 3,
                     {.strides = stride, .use_bias = false, .name = name + "_2_conv"})(x);
  x = relu(resnet_norm(x, name + "_2_bn"), name + "_2_relu");
  x = layers::Conv2D(4 * filters, 1, {.name = name + "_3_conv"})(x);
  return layers::Add({.name = name + "_out"})({beside, x});
}

/// The number of blocks in each of the four stacks.
using Depths = std::array<int, 4>;
constexpr Depths kResNet50 = {3, 4, 6, 3}, kResNet101 = {3, 4, 23, 3}, kResNet152 = {3, 8, 36, 3};

keras::Model resnet(const char* network, const char* name, const Depths& depths, bool is_v2,
                    const Options& options) {
  const SymbolicTensor image = keras::Input(detail::input_shape(network, options, 224, 32));
  SymbolicTensor x = layers::ZeroPadding2D(3, {.name = "conv1_pad"})(image);
  x = layers::Conv2D(64, 7, {.strides = 2, .name = "conv1_conv"})(x);
  if (!is_v2) x = relu(resnet_norm(x, "conv1_bn"), "conv1_relu");
  x = layers::ZeroPadding2D(1, {.name = "pool1_pad"})(x);
  x = layers::MaxPooling2D(3, {.strides = 2, .name = "pool1_pool"})(x);
  for (size_t stack = 0; stack < depths.size(); ++stack) {
    const int64_t filters = int64_t{64} << stack;
    for (int i = 1; i <= depths[stack]; ++i) {
      const std::string block = str_cat("conv", stack + 2, "_block", i);
      // Version 1 halves the image at the start of all stacks but the first, version 2 at the end
      // of all but the last.
      if (is_v2) {
        const bool halves = i == depths[stack] && stack + 1 < depths.size();
        x = resnet_v2_block(x, filters, halves ? 2 : 1, i == 1, block);
      } else {
        x = resnet_block(x, filters, i == 1 && stack > 0 ? 2 : 1, i == 1, block);
      }
    }
  }
  if (is_v2) x = relu(resnet_norm(x, "post_bn"), "post_relu");
  return detail::finished(image, detail::end(x, options, "avg_pool", "max_pool"), options, name);
}

}  // namespace

keras::Model ResNet50(const Options& options) {
  return resnet("ResNet50", "resnet50", kResNet50, false, options);
}
keras::Model ResNet101(const Options& options) {
  return resnet("ResNet101", "resnet101", kResNet101, false, options);
}
keras::Model ResNet152(const Options& options) {
  return resnet("ResNet152", "resnet152", kResNet152, false, options);
}
keras::Model ResNet50V2(const Options& options) {
  return resnet("ResNet50V2", "resnet50v2", kResNet50, true, options);
}
keras::Model ResNet101V2(const Options& options) {
  return resnet("ResNet101V2", "resnet101v2", kResNet101, true, options);
}
keras::Model ResNet152V2(const Options& options) {
  return resnet("ResNet152V2", "resnet152v2", kResNet152, true, options);
}

}  // namespace strata::applications
