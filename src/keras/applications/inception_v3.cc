#include "keras/applications/classifier.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

struct ConvArguments {
  std::string padding = "same";
  int64_t strides = 1;
};

/// A convolution, BatchNormalization without gamma, and relu.
SymbolicTensor conv(const SymbolicTensor& input, int64_t filters, int64_t rows, int64_t columns,
                    const ConvArguments& arguments = {}) {
  SymbolicTensor x = layers::Conv2D(
      filters, {rows, columns},
      {.strides = arguments.strides, .padding = arguments.padding, .use_bias = false})(input);
  x = layers::BatchNormalization({.axis = 3, .scale = false})(x);
  return layers::Activation("relu")(x);
}

const ConvArguments kDown = {.padding = "valid", .strides = 2};
const ConvArguments kValid = {.padding = "valid"};

SymbolicTensor joined(const std::vector<SymbolicTensor>& branches, const std::string& name = {}) {
  return layers::Concatenate({.axis = 3, .name = name})(branches);
}

SymbolicTensor averaged(const SymbolicTensor& x, int64_t filters) {
  return conv(layers::AveragePooling2D(3, {.strides = 1, .padding = "same"})(x), filters, 1, 1);
}

SymbolicTensor down(const SymbolicTensor& x) { return layers::MaxPooling2D(3, {.strides = 2})(x); }

/// mixed0 to mixed2: 35 x 35.
SymbolicTensor mixed_5x5(const SymbolicTensor& x, int64_t pool, const std::string& name) {
  const SymbolicTensor one = conv(x, 64, 1, 1);
  const SymbolicTensor five = conv(conv(x, 48, 1, 1), 64, 5, 5);
  SymbolicTensor twice = conv(x, 64, 1, 1);
  twice = conv(conv(twice, 96, 3, 3), 96, 3, 3);
  return joined({one, five, twice, averaged(x, pool)}, name);
}

/// mixed4 to mixed7: 17 x 17.
SymbolicTensor mixed_7x7(const SymbolicTensor& x, int64_t filters, const std::string& name) {
  const SymbolicTensor one = conv(x, 192, 1, 1);
  SymbolicTensor seven = conv(x, filters, 1, 1);
  seven = conv(conv(seven, filters, 1, 7), 192, 7, 1);
  SymbolicTensor twice = conv(x, filters, 1, 1);
  twice = conv(conv(twice, filters, 7, 1), filters, 1, 7);
  twice = conv(conv(twice, filters, 7, 1), 192, 1, 7);
  return joined({one, seven, twice, averaged(x, 192)}, name);
}

/// mixed9 and mixed10: 8 x 8.
SymbolicTensor mixed_3x3(const SymbolicTensor& x, int i) {
  const SymbolicTensor one = conv(x, 320, 1, 1);
  SymbolicTensor three = conv(x, 384, 1, 1);
  const SymbolicTensor wide = conv(three, 384, 1, 3);
  const SymbolicTensor high = conv(three, 384, 3, 1);
  three = joined({wide, high}, str_cat("mixed9_", i));
  SymbolicTensor twice = conv(conv(x, 448, 1, 1), 384, 3, 3);
  const SymbolicTensor twice_wide = conv(twice, 384, 1, 3);
  const SymbolicTensor twice_high = conv(twice, 384, 3, 1);
  twice = joined({twice_wide, twice_high});
  return joined({one, three, twice, averaged(x, 192)}, str_cat("mixed", 9 + i));
}

}  // namespace

keras::Model InceptionV3(const Options& options) {
  const SymbolicTensor image = keras::Input(detail::input_shape("InceptionV3", options, 299, 75));
  SymbolicTensor x = conv(image, 32, 3, 3, kDown);
  x = conv(conv(x, 32, 3, 3, kValid), 64, 3, 3);
  x = down(x);
  x = conv(conv(x, 80, 1, 1, kValid), 192, 3, 3, kValid);
  x = down(x);
  x = mixed_5x5(x, 32, "mixed0");
  x = mixed_5x5(x, 64, "mixed1");
  x = mixed_5x5(x, 64, "mixed2");

  SymbolicTensor three = conv(x, 384, 3, 3, kDown);
  SymbolicTensor twice = conv(conv(x, 64, 1, 1), 96, 3, 3);
  twice = conv(twice, 96, 3, 3, kDown);
  x = joined({three, twice, down(x)}, "mixed3");

  x = mixed_7x7(x, 128, "mixed4");
  x = mixed_7x7(x, 160, "mixed5");
  x = mixed_7x7(x, 160, "mixed6");
  x = mixed_7x7(x, 192, "mixed7");

  three = conv(conv(x, 192, 1, 1), 320, 3, 3, kDown);
  SymbolicTensor seven = conv(conv(x, 192, 1, 1), 192, 1, 7);
  seven = conv(conv(seven, 192, 7, 1), 192, 3, 3, kDown);
  x = joined({three, seven, down(x)}, "mixed8");

  x = mixed_3x3(x, 0);
  x = mixed_3x3(x, 1);
  const bool named = options.include_top;
  return detail::finished(image, detail::end(x, options, named ? "avg_pool" : "", ""), options,
                          "inception_v3");
}

}  // namespace strata::applications
