#pragma once

#include <cstdint>

// Plain data only, as in matmul_kernels.h.

namespace strata::kernels {

/// Rows of bfloat16, as bits, to float and back (to the nearest, ties to even; NaN stays NaN).
struct Bf16RowsKernels {
  void (*widen)(const uint16_t* from, int64_t count, float* to);
  void (*narrow)(const float* from, int64_t count, uint16_t* to);
};

const Bf16RowsKernels& bf16_rows_kernels_baseline();
const Bf16RowsKernels& bf16_rows_kernels_avx2();
const Bf16RowsKernels& bf16_rows_kernels_avx512();

}  // namespace strata::kernels
