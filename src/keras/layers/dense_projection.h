#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "strata/keras/layers/core.h"

namespace strata::layers {

/// What an EinsumDense computes where it is x w + b of matrices and no more.
struct DenseProjection {
  at::Tensor kernel;      ///< `[inputs, outputs]`
  at::Tensor bias;        ///< `[outputs]`; undefined: none.
  keras::Shape features;  ///< The outputs' sizes.
};

/// @param x  Its input, whose type the weights are cast to.
/// @return Nothing for other equations, or with an activation or a regularizer of what comes out.
std::optional<DenseProjection> dense_projection(const EinsumDense& layer, const at::Tensor& x);

}  // namespace strata::layers
