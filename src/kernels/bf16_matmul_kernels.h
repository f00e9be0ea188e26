#pragma once

#include <cstdint>

#include "kernels/matrix_view.h"

// Plain data only, as in matmul_kernels.h.

namespace strata::kernels {

/// c[m, n] = a[m, k] b[k, n] (+ bias[n] in each row). One stride of `a` and one of `b` is 1; rows
/// of c lie `c_stride` apart. Sizes are positive. The result is in `c`, rounded to bfloat16 once,
/// or, if that is null, in `c_float`.
struct Bf16Problem {
  int64_t m;
  int64_t n;
  int64_t k;
  Bf16View a;
  Bf16View b;
  const float* bias;  ///< Or null.
  uint16_t* c;
  float* c_float;
  int64_t c_stride;
};

/// Floats of scratch memory (aligned to 64 bytes) that bf16_matmul_avx512 needs.
int64_t bf16_scratch_floats(const Bf16Problem& problem);

/// For processors with AVX512_BF16. Each element of c is one chain of vdpbf16ps over pairs of k, in
/// order: its bits depend on its row of a, its column of b and k alone. That instruction adds two
/// products to a float sum, takes subnormal numbers for zeros, and rounds to nearest even.
void bf16_matmul_avx512(const Bf16Problem& problem, float* scratch);

/// Floats of scratch memory (aligned to 64 bytes) that bf16_matmul_amx needs.
int64_t bf16_amx_scratch_floats(const Bf16Problem& problem);

/// For processors with AMX_BF16 and AVX512_BF16, in a process that may use the registers. Each element of c is summed by
/// TDPBF16PS over 32 steps of k at a time, in order: its bits depend on its row of a, its column of b and k alone. That
/// instruction sums the even steps and the odd ones apart, so the bits are not those of bf16_matmul_avx512.
void bf16_matmul_amx(const Bf16Problem& problem, float* scratch);

}  // namespace strata::kernels
