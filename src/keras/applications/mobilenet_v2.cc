#include <array>

#include "keras/applications/classifier.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

SymbolicTensor mobilenet_v2_norm(const SymbolicTensor& x, const std::string& name) {
  return layers::BatchNormalization({.momentum = 0.999, .epsilon = 1e-3, .name = name})(x);
}

SymbolicTensor relu6(const SymbolicTensor& x, const std::string& name) {
  return layers::ReLU({.max_value = 6.0, .name = name})(x);
}

SymbolicTensor pointwise(const SymbolicTensor& x, int64_t filters, const std::string& name) {
  return layers::Conv2D(filters, 1, {.padding = "same", .use_bias = false, .name = name})(x);
}

struct InvertedBlock {
  int64_t filters;
  int64_t stride;
};

SymbolicTensor inverted_block(const SymbolicTensor& input, const InvertedBlock& block, int id,
                              double alpha) {
  const int64_t channels = input.shape().back();
  const auto scaled = static_cast<int64_t>(static_cast<double>(block.filters) * alpha);
  const int64_t filters = detail::divisible_by_8(static_cast<double>(scaled));
  const std::string prefix = id == 0 ? "expanded_conv_" : str_cat("block_", id, "_");
  SymbolicTensor x = input;
  if (id > 0) {
    x = pointwise(x, 6 * channels, prefix + "expand");
    x = relu6(mobilenet_v2_norm(x, prefix + "expand_BN"), prefix + "expand_relu");
  }
  if (block.stride == 2) {
    x = layers::ZeroPadding2D(detail::stride_padding(x, 3), {.name = prefix + "pad"})(x);
  }
  x = layers::DepthwiseConv2D(3, {.strides = block.stride,
                                  .padding = block.stride == 1 ? "same" : "valid",
                                  .use_bias = false,
                                  .name = prefix + "depthwise"})(x);
  x = relu6(mobilenet_v2_norm(x, prefix + "depthwise_BN"), prefix + "depthwise_relu");
  x = pointwise(x, filters, prefix + "project");
  x = mobilenet_v2_norm(x, prefix + "project_BN");
  if (channels != filters || block.stride != 1) return x;
  return layers::Add({.name = prefix + "add"})({input, x});
}

constexpr std::array<InvertedBlock, 17> kInvertedBlocks = {{{16, 1},
                                                            {24, 2},
                                                            {24, 1},
                                                            {32, 2},
                                                            {32, 1},
                                                            {32, 1},
                                                            {64, 2},
                                                            {64, 1},
                                                            {64, 1},
                                                            {64, 1},
                                                            {96, 1},
                                                            {96, 1},
                                                            {96, 1},
                                                            {160, 2},
                                                            {160, 1},
                                                            {160, 1},
                                                            {320, 1}}};

}  // namespace

keras::Model MobileNetV2(const Options& options, double alpha) {
  const keras::Shape shape = detail::input_shape("MobileNetV2", options, 224, 32);
  const SymbolicTensor image = keras::Input(shape);
  SymbolicTensor x =
      layers::Conv2D(detail::divisible_by_8(32 * alpha), 3,
                     {.strides = 2, .padding = "same", .use_bias = false, .name = "Conv1"})(image);
  x = relu6(mobilenet_v2_norm(x, "bn_Conv1"), "Conv1_relu");
  for (size_t i = 0; i < kInvertedBlocks.size(); ++i) {
    x = inverted_block(x, kInvertedBlocks[i], static_cast<int>(i), alpha);
  }
  const int64_t last = alpha > 1 ? detail::divisible_by_8(1280 * alpha) : 1280;
  x = layers::Conv2D(last, 1, {.use_bias = false, .name = "Conv_1"})(x);
  x = relu6(mobilenet_v2_norm(x, "Conv_1_bn"), "out_relu");

  return detail::finished(image, detail::end(x, options, "", ""), options,
                          detail::sized_name("mobilenetv2", alpha, shape));
}

}  // namespace strata::applications
