#pragma once

#include <string>

#include "strata/keras/applications.h"

/// What the networks have in common: their input and their end.
namespace strata::applications::detail {

/// The shape that the options ask for. Source: keras.applications.imagenet_utils.
keras::Shape input_shape(const char* network, const Options& options, int64_t usual, int64_t least);

/// Pooling and Dense, or the pooling that the options ask for.
/// @param pool_name  Of the pooling layers; empty: default names.
keras::SymbolicTensor end(const keras::SymbolicTensor& x, const Options& options,
                          const std::string& average_name, const std::string& max_name);

keras::SymbolicTensor predictions(const keras::SymbolicTensor& x, const Options& options);

}  // namespace strata::applications::detail
