#pragma once

#include <string>

#include "strata/keras/applications.h"

/// Parts that EfficientNet and EfficientNetV2 have in common.
namespace strata::applications::detail {

/// Of the normalizations.
constexpr double kV1Momentum = 0.99, kV2Momentum = 0.9;

struct EfficientConv {
  int64_t window = 1;
  int64_t strides = 1;
  std::string padding = "same";
};
/// A convolution without bias; its kernel begins with He's normal distribution over the outputs.
keras::SymbolicTensor efficient_conv(const keras::SymbolicTensor& x, int64_t filters,
                                     const std::string& name, const EfficientConv& options = {});

keras::SymbolicTensor efficient_norm(const keras::SymbolicTensor& x, const std::string& name,
                                     double momentum);
keras::SymbolicTensor efficient_silu(const keras::SymbolicTensor& x, const std::string& name);

struct EfficientBlock {
  int64_t filters_in;
  int64_t filters_out;
  int64_t window;
  int64_t strides;
  int64_t expand_ratio;
  double drop_rate;  ///< Of whole examples, in front of the sum.
  std::string name;  ///< "block1a_"
};

/// "block3b_": the stack, counted from 0, and the block in it.
std::string efficient_name(size_t stack, int64_t block);

/// The blocks of a stack that is scaled.
int64_t efficient_repeats(int64_t repeats, double depth);

/// Widens the image, convolves each channel by itself, weighs the channels by their means, and
/// adds the input if both have one shape. Version 1 pads by layers, and normalizes slower.
keras::SymbolicTensor inverted_bottleneck(const keras::SymbolicTensor& input,
                                          const EfficientBlock& block, bool is_v2);

/// Drops out examples and adds the block's input, if both have one shape.
keras::SymbolicTensor efficient_sum(const keras::SymbolicTensor& x,
                                    const keras::SymbolicTensor& input,
                                    const EfficientBlock& block);

/// The last convolution and what the options ask for behind it.
keras::SymbolicTensor efficient_end(const keras::SymbolicTensor& x, const Options& options,
                                    int64_t filters, bool is_v2, double dropout);

}  // namespace strata::applications::detail
