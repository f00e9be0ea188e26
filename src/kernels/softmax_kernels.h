#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// Softmax of rows [rows, columns], a row at a time. A row's sums are added in an order that
/// `columns` alone decides. `out` may be any of the inputs.
struct SoftmaxKernels {
  using Forward = void(const float* x, int64_t rows, int64_t columns, float* out);
  /// @param y  What the forward pass gave.
  using Backward = void(const float* gradient, const float* y, int64_t rows, int64_t columns,
                        float* out);
  Forward* softmax;
  Backward* softmax_backward;
  Forward* log_softmax;
  Backward* log_softmax_backward;
};

const SoftmaxKernels& softmax_kernels();  // the best for this processor; in softmax.cc
const SoftmaxKernels& softmax_kernels_baseline();
const SoftmaxKernels& softmax_kernels_avx2();
const SoftmaxKernels& softmax_kernels_avx512();

}  // namespace strata::kernels
