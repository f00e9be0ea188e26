#pragma once

#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/activations.h"
#include "strata/keras/layer.h"

namespace strata::layers {

struct EinsumDenseOptions {
  activations::Activation activation = {};
  std::optional<std::string> bias_axes = {};  ///< Letters of the output; unset: no bias.
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

/// Computes activation(einsum(equation, x, kernel) + bias). Equations: "ab,bc->ac",
/// "...ab,bc->...ac", "ab...,bc->ac...".
/// @param output_shape  Without the batch; kNone: the input's size.
class STRATA_API EinsumDense : public keras::Layer {
 public:
  EinsumDense(const std::string& equation, const keras::Shape& output_shape,
              const EinsumDenseOptions& options = {});
};

}  // namespace strata::layers
