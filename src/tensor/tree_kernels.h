#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

// Plain data only; see update_kernels.h.

namespace strata::tensor {

/// Joins 2, 3 (as (a+b)+c) or 4 (as (a+b)+(c+d)) sources; `out` may be one of them.
template <typename T>
using TreeKernel = void (*)(const T* const* sources, int64_t size, T* out);

template <typename T>
struct TreeKernelsOf {
  TreeKernel<T> join[3][3];  ///< [TreeOp][number of sources - 2]
};

/// 16-bit floats, as bits, to float and back (to the nearest, ties to even; NaN stays NaN).
struct HalfKernels {
  void (*widen)(const uint16_t* source, int64_t size, float* out);
  void (*narrow)(const float* source, int64_t size, uint16_t* out);
};

struct TreeKernels {
  TreeKernelsOf<float> f32;
  TreeKernelsOf<double> f64;
  TreeKernelsOf<int32_t> i32;
  TreeKernelsOf<int64_t> i64;
  TreeKernelsOf<int16_t> i16;
  TreeKernelsOf<int8_t> i8;
  TreeKernelsOf<uint8_t> u8;
  HalfKernels f16;
  HalfKernels bf16;
};

const TreeKernels& tree_kernels(CpuIsa isa);  // in tree_sum.cc
const TreeKernels& tree_kernels_baseline();
const TreeKernels& tree_kernels_avx2();
const TreeKernels& tree_kernels_avx512();

/// reduce_in_tree_order with the kernels of one instruction set.
template <typename T>
void reduce_in_tree_order_with(const TreeKernels& kernels, int op, const T* const* sources, int n,
                               int64_t size, T* out);

}  // namespace strata::tensor
