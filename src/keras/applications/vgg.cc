#include <array>

#include "keras/applications/classifier.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::applications {
namespace {

/// @param convolutions  Of each block.
keras::Model vgg(const char* network, const char* name, const std::array<int, 5>& convolutions,
                 const Options& options) {
  constexpr std::array<int64_t, 5> kFilters = {64, 128, 256, 512, 512};
  const keras::SymbolicTensor image = keras::Input(detail::input_shape(network, options, 224, 32));
  keras::SymbolicTensor x = image;
  for (size_t i = 0; i < kFilters.size(); ++i) {
    const std::string block = str_cat("block", i + 1);
    for (int k = 1; k <= convolutions[i]; ++k) {
      x = layers::Conv2D(
          kFilters[i], 3,
          {.padding = "same", .activation = "relu", .name = str_cat(block, "_conv", k)})(x);
    }
    x = layers::MaxPooling2D(2, {.strides = 2, .name = block + "_pool"})(x);
  }
  if (options.include_top) {
    x = layers::Flatten({.name = "flatten"})(x);
    x = layers::Dense(4096, {.activation = "relu", .name = "fc1"})(x);
    x = layers::Dense(4096, {.activation = "relu", .name = "fc2"})(x);
    x = detail::predictions(x, options);
  } else {
    x = detail::pooled(x, options, "", "");
  }
  return detail::finished(image, x, options, name);
}

}  // namespace

keras::Model VGG16(const Options& options) {
  return vgg("VGG16", "vgg16", {2, 2, 3, 3, 3}, options);
}
keras::Model VGG19(const Options& options) {
  return vgg("VGG19", "vgg19", {2, 2, 4, 4, 4}, options);
}

}  // namespace strata::applications
