#include <algorithm>
#include <vector>

#include "keras/applications/classifier.h"
#include "keras/applications/efficientnet_blocks.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/preprocessing.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

struct EfficientV2Stack {
  bool fused;  ///< One convolution in place of the widening and the depthwise one.
  int64_t repeats;
  int64_t filters_in;
  int64_t filters_out;
  int64_t expand_ratio;
  int64_t strides;
};
using EfficientV2Stacks = std::vector<EfficientV2Stack>;

const EfficientV2Stacks kEfficientV2B = {{true, 1, 32, 16, 1, 1},   {true, 2, 16, 32, 4, 2},
                                         {true, 2, 32, 48, 4, 2},   {false, 3, 48, 96, 4, 2},
                                         {false, 5, 96, 112, 6, 1}, {false, 8, 112, 192, 6, 2}};
const EfficientV2Stacks kEfficientV2S = {{true, 2, 24, 24, 1, 1},    {true, 4, 24, 48, 4, 2},
                                         {true, 4, 48, 64, 4, 2},    {false, 6, 64, 128, 4, 2},
                                         {false, 9, 128, 160, 6, 1}, {false, 15, 160, 256, 6, 2}};
const EfficientV2Stacks kEfficientV2M = {{true, 3, 24, 24, 1, 1},     {true, 5, 24, 48, 4, 2},
                                         {true, 5, 48, 80, 4, 2},     {false, 7, 80, 160, 4, 2},
                                         {false, 14, 160, 176, 6, 1}, {false, 18, 176, 304, 6, 2},
                                         {false, 5, 304, 512, 6, 1}};
const EfficientV2Stacks kEfficientV2L = {{true, 4, 32, 32, 1, 1},     {true, 7, 32, 64, 4, 2},
                                         {true, 7, 64, 96, 4, 2},     {false, 10, 96, 192, 4, 2},
                                         {false, 19, 192, 224, 6, 1}, {false, 25, 224, 384, 6, 2},
                                         {false, 7, 384, 640, 6, 1}};

using detail::kV2Momentum;

/// 3 x 3 convolutions to the wide image and 1 x 1 ones back, or one 3 x 3 if it is not widened.
SymbolicTensor fused_bottleneck(const SymbolicTensor& input, const detail::EfficientBlock& block) {
  const std::string& name = block.name;
  const detail::EfficientConv wide = {.window = block.window, .strides = block.strides};
  if (block.expand_ratio == 1) {
    SymbolicTensor x =
        detail::efficient_conv(input, block.filters_out, name + "project_conv", wide);
    x = detail::efficient_norm(x, name + "project_bn", kV2Momentum);
    return detail::efficient_sum(detail::efficient_silu(x, name + "project_activation"), input,
                                 block);
  }
  const int64_t filters = block.filters_in * block.expand_ratio;
  SymbolicTensor x = detail::efficient_conv(input, filters, name + "expand_conv", wide);
  x = detail::efficient_silu(detail::efficient_norm(x, name + "expand_bn", kV2Momentum),
                             name + "expand_activation");
  x = detail::efficient_conv(x, block.filters_out, name + "project_conv");
  return detail::efficient_sum(detail::efficient_norm(x, name + "project_bn", kV2Momentum), input,
                               block);
}

struct EfficientV2Network {
  const char* network;
  const char* name;
  const EfficientV2Stacks& stacks;
  int64_t size;  ///< Of the usual image.
  double width = 1;
  double depth = 1;
};

keras::Model efficientnet_v2(const EfficientV2Network& of, const Options& options,
                             bool include_preprocessing) {
  const auto scaled = [&](int64_t filters) {
    const auto nearest = static_cast<int64_t>(static_cast<double>(filters) * of.width + 4) / 8 * 8;
    return std::max<int64_t>(8, nearest);
  };
  int64_t unscaled = 0;  // Keras divides by the number of blocks before they are repeated.
  for (const EfficientV2Stack& stack : of.stacks) unscaled += stack.repeats;
  const keras::Shape shape = detail::input_shape(of.network, options, of.size, 32);
  const SymbolicTensor image = keras::Input(shape);
  SymbolicTensor x = image;
  if (include_preprocessing && &of.stacks == &kEfficientV2B && shape[2] == 3) {
    x = layers::Rescaling(1.0 / 255)(x);
    x = layers::Normalization({.axis = {3},
                               .mean = {{0.485, 0.456, 0.406}},
                               .variance = {{0.229 * 0.229, 0.224 * 0.224, 0.225 * 0.225}}})(x);
  } else if (include_preprocessing) {
    x = layers::Rescaling(1.0 / 128, {.offset = -1.0})(x);
  }
  x = detail::efficient_conv(x, scaled(of.stacks[0].filters_in), "stem_conv",
                             {.window = 3, .strides = 2});
  x = detail::efficient_silu(detail::efficient_norm(x, "stem_bn", kV2Momentum), "stem_activation");
  int64_t done = 0;
  for (size_t s = 0; s < of.stacks.size(); ++s) {
    const EfficientV2Stack& stack = of.stacks[s];
    const int64_t repeats = detail::efficient_repeats(stack.repeats, of.depth);
    for (int64_t i = 0; i < repeats; ++i, ++done) {
      const detail::EfficientBlock block = {
          .filters_in = scaled(i == 0 ? stack.filters_in : stack.filters_out),
          .filters_out = scaled(stack.filters_out),
          .window = 3,
          .strides = i == 0 ? stack.strides : 1,
          .expand_ratio = stack.expand_ratio,
          .drop_rate = 0.2 * static_cast<double>(done) / static_cast<double>(unscaled),
          .name = detail::efficient_name(s, i)};
      x = stack.fused ? fused_bottleneck(x, block)
                      : detail::inverted_bottleneck(x, block, /*is_v2=*/true);
    }
  }
  x = detail::efficient_end(x, options, scaled(1280), /*is_v2=*/true, 0.2);
  return detail::finished(image, x, options, of.name);
}

}  // namespace

keras::Model EfficientNetV2B0(const Options& options, bool include_preprocessing) {
  return efficientnet_v2({"EfficientNetV2B0", "efficientnetv2-b0", kEfficientV2B, 224}, options,
                         include_preprocessing);
}
keras::Model EfficientNetV2B1(const Options& options, bool include_preprocessing) {
  return efficientnet_v2({"EfficientNetV2B1", "efficientnetv2-b1", kEfficientV2B, 240, 1.0, 1.1},
                         options, include_preprocessing);
}
keras::Model EfficientNetV2B2(const Options& options, bool include_preprocessing) {
  return efficientnet_v2({"EfficientNetV2B2", "efficientnetv2-b2", kEfficientV2B, 260, 1.1, 1.2},
                         options, include_preprocessing);
}
keras::Model EfficientNetV2B3(const Options& options, bool include_preprocessing) {
  return efficientnet_v2({"EfficientNetV2B3", "efficientnetv2-b3", kEfficientV2B, 300, 1.2, 1.4},
                         options, include_preprocessing);
}
keras::Model EfficientNetV2S(const Options& options, bool include_preprocessing) {
  return efficientnet_v2({"EfficientNetV2S", "efficientnetv2-s", kEfficientV2S, 384}, options,
                         include_preprocessing);
}
keras::Model EfficientNetV2M(const Options& options, bool include_preprocessing) {
  return efficientnet_v2({"EfficientNetV2M", "efficientnetv2-m", kEfficientV2M, 480}, options,
                         include_preprocessing);
}
keras::Model EfficientNetV2L(const Options& options, bool include_preprocessing) {
  return efficientnet_v2({"EfficientNetV2L", "efficientnetv2-l", kEfficientV2L, 480}, options,
                         include_preprocessing);
}

}  // namespace strata::applications
