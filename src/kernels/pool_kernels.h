#pragma once

#include <cstdint>

// Plain data only; see update_kernels.h.

namespace strata::kernels {

/// Windows of 2 x 2, side by side, in planes of height x width floats; the odd last row and column
/// belong to none.
struct PoolKernels {
  /// The largest value of each window and its position in its plane. Of equal values the first, of
  /// NaNs the last, as libtorch has it.
  void (*forward)(const float* in, int64_t planes, int64_t height, int64_t width, float* out,
                  int64_t* position);
  /// The same for windows of 3 x 3, two apart.
  void (*forward3)(const float* in, int64_t planes, int64_t height, int64_t width, float* out,
                   int64_t* position);
  /// The reverse of the first: zeros but for `gradient` at each window's position.
  /// @return false: a position lies in another window; `out` is then unspecified.
  bool (*backward)(const float* gradient, const int64_t* position, int64_t planes, int64_t height,
                   int64_t width, float* out);
};

const PoolKernels& pool_kernels();  // in max_pool.cc
const PoolKernels& pool_kernels_baseline();
const PoolKernels& pool_kernels_avx2();
const PoolKernels& pool_kernels_avx512();

}  // namespace strata::kernels
