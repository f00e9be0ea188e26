#include <array>

#include "keras/applications/classifier.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::applications {

keras::Model VGG16(const Options& options) {
  struct Block {
    int convolutions;
    int64_t filters;
  };
  constexpr std::array<Block, 5> kBlocks = {{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}};
  const keras::SymbolicTensor image = keras::Input(detail::input_shape("VGG16", options, 224, 32));
  keras::SymbolicTensor x = image;
  for (size_t i = 0; i < kBlocks.size(); ++i) {
    const std::string block = str_cat("block", i + 1);
    for (int k = 1; k <= kBlocks[i].convolutions; ++k) {
      x = layers::Conv2D(
          kBlocks[i].filters, 3,
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
    x = detail::end(x, options, "", "");
  }
  return {image, x, options.name.empty() ? "vgg16" : options.name};
}

}  // namespace strata::applications
