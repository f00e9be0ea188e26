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

SymbolicTensor block(const SymbolicTensor& input, int64_t filters, int64_t stride, bool shortcut,
                     const std::string& name) {
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

SymbolicTensor stack(SymbolicTensor x, int64_t filters, int blocks, int64_t stride,
                     const std::string& name) {
  x = block(x, filters, stride, true, name + "_block1");
  for (int i = 2; i <= blocks; ++i) {
    x = block(x, filters, 1, false, str_cat(name, "_block", i));
  }
  return x;
}

}  // namespace

keras::Model ResNet50(const Options& options) {
  const SymbolicTensor image = keras::Input(detail::input_shape("ResNet50", options, 224, 32));
  SymbolicTensor x = layers::ZeroPadding2D(3, {.name = "conv1_pad"})(image);
  x = layers::Conv2D(64, 7, {.strides = 2, .name = "conv1_conv"})(x);
  x = relu(resnet_norm(x, "conv1_bn"), "conv1_relu");
  x = layers::ZeroPadding2D(1, {.name = "pool1_pad"})(x);
  x = layers::MaxPooling2D(3, {.strides = 2, .name = "pool1_pool"})(x);
  x = stack(x, 64, 3, 1, "conv2");
  x = stack(x, 128, 4, 2, "conv3");
  x = stack(x, 256, 6, 2, "conv4");
  x = stack(x, 512, 3, 2, "conv5");
  return {image, detail::end(x, options, "avg_pool", "max_pool"),
          options.name.empty() ? "resnet50" : options.name};
}

}  // namespace strata::applications
