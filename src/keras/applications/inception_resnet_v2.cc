#include "keras/applications/classifier.h"
#include "keras/applications/custom_layers.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

struct UnitOptions {
  int64_t strides = 1;
  std::string padding = "same";
  std::string name = {};
};
const UnitOptions kHalving = {.strides = 2, .padding = "valid"};

/// A convolution, BatchNormalization without gamma, and relu.
SymbolicTensor unit(const SymbolicTensor& input, int64_t filters, keras::Sizes<2> window,
                    const UnitOptions& options = {}) {
  const auto named = [&](const char* part) {
    return options.name.empty() ? std::string() : options.name + part;
  };
  SymbolicTensor x = layers::Conv2D(filters, window,
                                    {.strides = options.strides,
                                     .padding = options.padding,
                                     .use_bias = false,
                                     .name = options.name})(input);
  x = layers::BatchNormalization({.axis = 3, .scale = false, .name = named("_bn")})(x);
  return layers::Activation("relu", {.name = named("_ac")})(x);
}

SymbolicTensor concatenated(const std::vector<SymbolicTensor>& branches, const std::string& name) {
  return layers::Concatenate({.axis = 3, .name = name})(branches);
}

SymbolicTensor halved(const SymbolicTensor& x) {
  return layers::MaxPooling2D(3, {.strides = 2})(x);
}

/// The branches of the residual blocks.
std::vector<SymbolicTensor> branches_35(const SymbolicTensor& x) {
  const SymbolicTensor first = unit(x, 32, 1);
  const SymbolicTensor second = unit(unit(x, 32, 1), 32, 3);
  const SymbolicTensor third = unit(unit(unit(x, 32, 1), 48, 3), 64, 3);
  return {first, second, third};
}
std::vector<SymbolicTensor> branches_17(const SymbolicTensor& x) {
  const SymbolicTensor first = unit(x, 192, 1);
  const SymbolicTensor second = unit(unit(unit(x, 128, 1), 160, {1, 7}), 192, {7, 1});
  return {first, second};
}
std::vector<SymbolicTensor> branches_8(const SymbolicTensor& x) {
  const SymbolicTensor first = unit(x, 192, 1);
  const SymbolicTensor second = unit(unit(unit(x, 192, 1), 224, {1, 3}), 256, {3, 1});
  return {first, second};
}

/// Adds `scale` times what the branches are together.
SymbolicTensor scaled_residual(const SymbolicTensor& x, const std::vector<SymbolicTensor>& branches,
                               double scale, const std::string& name, bool activated = true) {
  const SymbolicTensor mixed = concatenated(branches, name + "_mixed");
  const SymbolicTensor up =
      layers::Conv2D(x.shape().back(), 1, {.padding = "same", .name = name + "_conv"})(mixed);
  const SymbolicTensor y = CustomScaleLayer(scale)({x, up});
  return activated ? layers::Activation("relu", {.name = name + "_ac"})(y) : y;
}

SymbolicTensor mixed_5b(const SymbolicTensor& x) {
  const SymbolicTensor first = unit(x, 96, 1);
  const SymbolicTensor second = unit(unit(x, 48, 1), 64, 5);
  const SymbolicTensor third = unit(unit(unit(x, 64, 1), 96, 3), 96, 3);
  const SymbolicTensor pool = layers::AveragePooling2D(3, {.strides = 1, .padding = "same"})(x);
  return concatenated({first, second, third, unit(pool, 64, 1)}, "mixed_5b");
}

SymbolicTensor mixed_6a(const SymbolicTensor& x) {
  const SymbolicTensor first = unit(x, 384, 3, kHalving);
  const SymbolicTensor second = unit(unit(unit(x, 256, 1), 256, 3), 384, 3, kHalving);
  return concatenated({first, second, halved(x)}, "mixed_6a");
}

SymbolicTensor mixed_7a(const SymbolicTensor& x) {
  const SymbolicTensor first = unit(unit(x, 256, 1), 384, 3, kHalving);
  const SymbolicTensor second = unit(unit(x, 256, 1), 288, 3, kHalving);
  const SymbolicTensor third = unit(unit(unit(x, 256, 1), 288, 3), 320, 3, kHalving);
  return concatenated({first, second, third, halved(x)}, "mixed_7a");
}

}  // namespace

keras::Model InceptionResNetV2(const Options& options) {
  const UnitOptions valid = {.padding = "valid"};
  const SymbolicTensor image =
      keras::Input(detail::input_shape("InceptionResNetV2", options, 299, 75));
  SymbolicTensor x = unit(unit(image, 32, 3, kHalving), 32, 3, valid);
  x = halved(unit(x, 64, 3));
  x = halved(unit(unit(x, 80, 1, valid), 192, 3, valid));
  x = mixed_5b(x);
  for (int i = 1; i <= 10; ++i) {
    x = scaled_residual(x, branches_35(x), 0.17, str_cat("block35_", i));
  }
  x = mixed_6a(x);
  for (int i = 1; i <= 20; ++i) {
    x = scaled_residual(x, branches_17(x), 0.1, str_cat("block17_", i));
  }
  x = mixed_7a(x);
  for (int i = 1; i <= 9; ++i) x = scaled_residual(x, branches_8(x), 0.2, str_cat("block8_", i));
  x = scaled_residual(x, branches_8(x), 1.0, "block8_10", false);
  x = unit(x, 1536, 1, {.name = "conv_7b"});
  const std::string pool = options.include_top ? "avg_pool" : "";
  return detail::finished(image, detail::end(x, options, pool, ""), options, "inception_resnet_v2");
}

}  // namespace strata::applications
