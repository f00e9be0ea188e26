#pragma once

#include <utility>
#include <vector>

#include "strata/keras/layer_impl.h"

/// What layers with a kernel and a bias name and make alike.
namespace strata::layers {

template <typename Config, typename Options>
void visit_kernel_and_bias(Config& config, Options& options) {
  config("kernel_initializer", options.kernel_initializer);
  config("bias_initializer", options.bias_initializer);
  config("kernel_regularizer", options.kernel_regularizer);
  config("bias_regularizer", options.bias_regularizer);
  config("activity_regularizer", options.activity_regularizer);
  config("kernel_constraint", options.kernel_constraint);
  config("bias_constraint", options.bias_constraint);
}

/// @param memory_order  As WeightOptions'.
template <typename Options>
keras::WeightOptions kernel_weight(const Options& options, std::vector<int64_t> memory_order = {}) {
  return {.initializer = options.kernel_initializer,
          .regularizer = options.kernel_regularizer,
          .constraint = options.kernel_constraint,
          .memory_order = std::move(memory_order)};
}

template <typename Options>
keras::WeightOptions bias_weight(const Options& options) {
  return {.initializer = options.bias_initializer,
          .regularizer = options.bias_regularizer,
          .constraint = options.bias_constraint};
}

}  // namespace strata::layers
