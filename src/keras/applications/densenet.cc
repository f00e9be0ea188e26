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

SymbolicTensor densenet_norm_relu(const SymbolicTensor& x, const std::string& norm_name,
                                  const std::string& relu_name) {
  const SymbolicTensor y =
      layers::BatchNormalization({.axis = 3, .epsilon = 1.001e-5, .name = norm_name})(x);
  return layers::Activation("relu", {.name = relu_name})(y);
}

/// Adds 32 channels to those of `input`.
SymbolicTensor densenet_block(const SymbolicTensor& input, const std::string& name) {
  constexpr int64_t kGrowth = 32;
  SymbolicTensor x = densenet_norm_relu(input, name + "_0_bn", name + "_0_relu");
  x = layers::Conv2D(4 * kGrowth, 1, {.use_bias = false, .name = name + "_1_conv"})(x);
  x = densenet_norm_relu(x, name + "_1_bn", name + "_1_relu");
  x = layers::Conv2D(kGrowth, 3,
                     {.padding = "same", .use_bias = false, .name = name + "_2_conv"})(x);
  return layers::Concatenate({.axis = 3, .name = name + "_concat"})({input, x});
}

/// Halves channels, height and width.
SymbolicTensor densenet_transition(const SymbolicTensor& input, const std::string& name) {
  SymbolicTensor x = densenet_norm_relu(input, name + "_bn", name + "_relu");
  x = layers::Conv2D(x.shape().back() / 2, 1, {.use_bias = false, .name = name + "_conv"})(x);
  return layers::AveragePooling2D(2, {.strides = 2, .name = name + "_pool"})(x);
}

keras::Model densenet(const char* network, const char* name, const std::array<int, 4>& depths,
                      const Options& options) {
  const SymbolicTensor image = keras::Input(detail::input_shape(network, options, 224, 32));
  SymbolicTensor x = layers::ZeroPadding2D(3)(image);
  x = layers::Conv2D(64, 7, {.strides = 2, .use_bias = false, .name = "conv1_conv"})(x);
  x = densenet_norm_relu(x, "conv1_bn", "conv1_relu");
  x = layers::ZeroPadding2D(1)(x);
  x = layers::MaxPooling2D(3, {.strides = 2, .name = "pool1"})(x);
  for (size_t stack = 0; stack < depths.size(); ++stack) {
    if (stack > 0) x = densenet_transition(x, str_cat("pool", stack + 1));
    for (int i = 1; i <= depths[stack]; ++i) {
      x = densenet_block(x, str_cat("conv", stack + 2, "_block", i));
    }
  }
  x = densenet_norm_relu(x, "bn", "relu");
  return detail::finished(image, detail::end(x, options, "avg_pool", "max_pool"), options, name);
}

}  // namespace

keras::Model DenseNet121(const Options& options) {
  return densenet("DenseNet121", "densenet121", {6, 12, 24, 16}, options);
}
keras::Model DenseNet169(const Options& options) {
  return densenet("DenseNet169", "densenet169", {6, 12, 32, 32}, options);
}
keras::Model DenseNet201(const Options& options) {
  return densenet("DenseNet201", "densenet201", {6, 12, 48, 32}, options);
}

}  // namespace strata::applications
