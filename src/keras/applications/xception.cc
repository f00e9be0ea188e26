#include "keras/applications/classifier.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

SymbolicTensor xception_relu(const SymbolicTensor& x, const std::string& name) {
  return layers::Activation("relu", {.name = name + "_act"})(x);
}

/// A separable convolution and its normalization.
SymbolicTensor separable(const SymbolicTensor& x, int64_t filters, const std::string& name) {
  const SymbolicTensor y =
      layers::SeparableConv2D(filters, 3, {.padding = "same", .use_bias = false, .name = name})(x);
  return layers::BatchNormalization({.name = name + "_bn"})(y);
}

/// A 3 x 3 convolution of the stem, its normalization, relu.
SymbolicTensor xception_stem(const SymbolicTensor& x, int64_t filters, int64_t stride,
                             const std::string& name) {
  SymbolicTensor y =
      layers::Conv2D(filters, 3, {.strides = stride, .use_bias = false, .name = name})(x);
  y = layers::BatchNormalization({.name = name + "_bn"})(y);
  return xception_relu(y, name);
}

/// Halves the image. The names of block 2 differ from those of the others: no relu is in front of
/// its first convolution.
SymbolicTensor xception_down(const SymbolicTensor& input, int64_t first, int64_t second,
                             int number) {
  const std::string block = str_cat("block", number, "_");
  SymbolicTensor beside =
      layers::Conv2D(second, 1, {.strides = 2, .padding = "same", .use_bias = false})(input);
  beside = layers::BatchNormalization()(beside);
  SymbolicTensor x = number == 2 ? input : xception_relu(input, block + "sepconv1");
  x = separable(x, first, block + "sepconv1");
  x = separable(xception_relu(x, block + "sepconv2"), second, block + "sepconv2");
  x = layers::MaxPooling2D(3, {.strides = 2, .padding = "same", .name = block + "pool"})(x);
  return layers::Add()({x, beside});
}

SymbolicTensor xception_middle(const SymbolicTensor& input, int number) {
  SymbolicTensor x = input;
  for (int i = 1; i <= 3; ++i) {
    const std::string name = str_cat("block", number, "_sepconv", i);
    x = separable(xception_relu(x, name), 728, name);
  }
  return layers::Add()({x, input});
}

}  // namespace

keras::Model Xception(const Options& options) {
  const SymbolicTensor image = keras::Input(detail::input_shape("Xception", options, 299, 71));
  SymbolicTensor x = xception_stem(image, 32, 2, "block1_conv1");
  x = xception_stem(x, 64, 1, "block1_conv2");
  x = xception_down(x, 128, 128, 2);
  x = xception_down(x, 256, 256, 3);
  x = xception_down(x, 728, 728, 4);
  for (int number = 5; number <= 12; ++number) x = xception_middle(x, number);
  x = xception_down(x, 728, 1024, 13);
  x = xception_relu(separable(x, 1536, "block14_sepconv1"), "block14_sepconv1");
  x = xception_relu(separable(x, 2048, "block14_sepconv2"), "block14_sepconv2");
  const std::string pool = options.include_top ? "avg_pool" : "";
  return detail::finished(image, detail::end(x, options, pool, ""), options, "xception");
}

}  // namespace strata::applications
