#pragma once

#include <string>

#include "strata/keras/applications.h"
#include "strata/keras/layers/reshaping.h"

/// What the networks have in common: their input, their end, and how they count filters.
namespace strata::applications::detail {

/// The shape that the options ask for. Source: keras.applications.imagenet_utils.
keras::Shape input_shape(const char* network, const Options& options, int64_t usual, int64_t least);

/// Checks a shape as `input_shape` does, but for sizes that vary.
void check_input_shape(const char* network, const keras::Shape& shape, int64_t least);

/// Pooling and Dense, or the pooling that the options ask for.
/// @param average_name, max_name  Of the pooling layers; empty: default names.
keras::SymbolicTensor end(const keras::SymbolicTensor& x, const Options& options,
                          const std::string& average_name, const std::string& max_name);

/// The pooling alone.
keras::SymbolicTensor pooled(const keras::SymbolicTensor& x, const Options& options,
                             const std::string& average_name, const std::string& max_name);

keras::SymbolicTensor predictions(const keras::SymbolicTensor& x, const Options& options,
                                  const std::string& name = "predictions");

/// The model between two tensors, with the weights of the options' file.
/// @param usual_name  Its name unless the options have one.
keras::Model finished(const keras::SymbolicTensor& image, const keras::SymbolicTensor& y,
                      const Options& options, const std::string& usual_name);

/// "mobilenet_1.00_224": the width's factor, and the height.
std::string sized_name(const char* family, double alpha, const keras::Shape& shape);

/// The nearest multiple of 8, at least 8, and not below 90 % of `filters`.
int64_t divisible_by_8(double filters);

/// The zeros that padding 'same' puts around an image for a window with stride 2; images of unknown
/// height count as even. Source: imagenet_utils.correct_pad.
layers::Edges<2> stride_padding(const keras::SymbolicTensor& x, int64_t window);

}  // namespace strata::applications::detail
