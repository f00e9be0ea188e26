#include <array>

#include "keras/applications/classifier.h"
#include "keras/applications/custom_layers.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/preprocessing.h"
#include "strata/keras/ops.h"
#include "strata/keras/sequential.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

struct ConvNeXtNetwork {
  const char* network;
  const char* name;
  int64_t third_depth;  ///< The blocks of the third stage; the others have 3.
  int64_t channels;     ///< Of the first stage; each stage has twice those of the one before.
};

layers::LayerNormalization convnext_norm(const std::string& name) {
  return layers::LayerNormalization({.epsilon = 1e-6, .name = name});
}

/// Reduces the image: the first stage by 4, the others by 2.
keras::Sequential convnext_reduction(size_t stage, int64_t channels, const std::string& name) {
  if (stage == 0) {
    const layers::Conv2D conv(channels, 4, {.strides = 4, .name = name + "_stem_conv"});
    return keras::Sequential({conv, convnext_norm(name + "_stem_layernorm")}, name + "_stem");
  }
  const layers::LayerNormalization norm =
      convnext_norm(str_cat(name, "_downsampling_layernorm_", stage - 1));
  const layers::Conv2D conv(
      channels, 2, {.strides = 2, .name = str_cat(name, "_downsampling_conv_", stage - 1)});
  return keras::Sequential({norm, conv}, str_cat(name, "_downsampling_block_", stage - 1));
}

SymbolicTensor convnext_block(const SymbolicTensor& input, int64_t channels,
                              const std::string& name) {
  SymbolicTensor x = layers::Conv2D(
      channels, 7,
      {.padding = "same", .groups = channels, .name = name + "_depthwise_conv"})(input);
  x = convnext_norm(name + "_layernorm")(x);
  x = layers::Dense(4 * channels, {.name = name + "_pointwise_conv_1"})(x);
  x = layers::Activation("gelu", {.name = name + "_gelu"})(x);
  x = layers::Dense(channels, {.name = name + "_pointwise_conv_2"})(x);
  x = LayerScale(1e-6, channels, {.name = name + "_layer_scale"})(x);
  x = layers::Activation("linear", {.name = name + "_identity"})(x);
  return input + x;
}

keras::Model convnext(const ConvNeXtNetwork& of, const Options& options,
                      bool include_preprocessing) {
  // The name of the model is that of its layers, too.
  const std::string name = options.name.empty() ? of.name : options.name;
  const keras::Shape shape = detail::input_shape(of.network, options, 224, 32);
  const SymbolicTensor image = keras::Input(shape);
  SymbolicTensor x = image;
  if (include_preprocessing && shape[2] == 3) {
    const auto squared = [](double deviation) { return (deviation * 255) * (deviation * 255); };
    x = layers::Normalization({.mean = {{0.485 * 255, 0.456 * 255, 0.406 * 255}},
                               .variance = {{squared(0.229), squared(0.224), squared(0.225)}},
                               .name = name + "_prestem_normalization"})(x);
  }
  for (size_t stage = 0; stage < 4; ++stage) {
    const int64_t channels = of.channels << stage;
    x = convnext_reduction(stage, channels, name)(x);
    const int64_t depth = stage == 2 ? of.third_depth : 3;
    for (int64_t i = 0; i < depth; ++i) {
      x = convnext_block(x, channels, str_cat(name, "_stage_", stage, "_block_", i));
    }
  }
  if (options.include_top) {
    x = layers::GlobalAveragePooling2D({.name = name + "_head_gap"})(x);
    x = convnext_norm(name + "_head_layernorm")(x);
    x = detail::predictions(x, options, name + "_head_dense");
  } else {
    x = convnext_norm("")(detail::pooled(x, options, "", ""));
  }
  return detail::finished(image, x, options, name);
}

}  // namespace

keras::Model ConvNeXtTiny(const Options& options, bool include_preprocessing) {
  return convnext({"ConvNeXtTiny", "convnext_tiny", 9, 96}, options, include_preprocessing);
}
keras::Model ConvNeXtSmall(const Options& options, bool include_preprocessing) {
  return convnext({"ConvNeXtSmall", "convnext_small", 27, 96}, options, include_preprocessing);
}
keras::Model ConvNeXtBase(const Options& options, bool include_preprocessing) {
  return convnext({"ConvNeXtBase", "convnext_base", 27, 128}, options, include_preprocessing);
}
keras::Model ConvNeXtLarge(const Options& options, bool include_preprocessing) {
  return convnext({"ConvNeXtLarge", "convnext_large", 27, 192}, options, include_preprocessing);
}
keras::Model ConvNeXtXLarge(const Options& options, bool include_preprocessing) {
  return convnext({"ConvNeXtXLarge", "convnext_xlarge", 27, 256}, options, include_preprocessing);
}

}  // namespace strata::applications
