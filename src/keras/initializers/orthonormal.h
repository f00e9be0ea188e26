#pragma once

#include <ATen/core/Tensor.h>

namespace strata::initializers {

/// The orthogonal factor of [rows, columns] (rows >= columns), by two passes of Gram and Schmidt in
/// double; the diagonal of the triangular factor is positive. Its bits are the same on all
/// processors, where LAPACK's are not; LAPACK is faster.
at::Tensor orthonormal_columns(const at::Tensor& matrix);

}  // namespace strata::initializers
