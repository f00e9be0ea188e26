#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/activations.h"
#include "strata/keras/layer.h"

/// Keras's layers with Keras's defaults. Source: keras.layers 3.15.
namespace strata::layers {

struct DenseOptions {
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint bias_constraint = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// activation(x kernel + bias): `[batch, ..., in]` to `[batch, ..., units]`.
class STRATA_API Dense : public keras::Layer {
 public:
  explicit Dense(int64_t units, const DenseOptions& options = {});
  Dense(int64_t units, activations::Activation activation);
};

}  // namespace strata::layers
