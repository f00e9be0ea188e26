#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "kernels/bf16_matmul_kernels.h"
#include "kernels/matrix_view.h"

// Plain data only: the kernels behind this are compiled for one instruction set, see
// update_kernels.h.

namespace strata::kernels {

/// A packed panel of so many rows fills the first-level cache.
inline constexpr int64_t kMaxBlockK = 192;
/// A sum of so many terms is one block all the same: the second-level cache feeds its panel, and the
/// result is written once.
inline constexpr int64_t kMaxOnlyBlockK = 256;

/// c[m, n] = a[m, k] b[k, n] (+ bias[n] in each row, + row_bias[m] in each column). One stride of
/// `a` and one of `b` is 1; rows of c lie `c_stride` apart. Sizes are positive.
struct MatmulProblem {
  int64_t m;
  int64_t n;
  int64_t k;
  MatrixView a;
  MatrixView b;
  const float* bias;  ///< Or null.
  float* c;
  int64_t c_stride;
  const float* row_bias = nullptr;  ///< Or null.
  bool add = false;                 ///< To what c holds, first in the order of the sum.
  int64_t max_block = kMaxBlockK;   ///< Of k. It decides the order of sums: the bits.
};

/// Each element of c is one chain of fused multiply-adds a block of k, the blocks joined in order:
/// its bits depend on its row of a, its column of b and k alone, not on m, n, strides, addresses,
/// threads or the instruction set.
struct MatmulKernels {
  /// Floats of scratch memory (aligned to 64 bytes) that `multiply` needs.
  int64_t (*scratch_floats)(const MatmulProblem& problem);
  void (*multiply)(const MatmulProblem& problem, float* scratch);
  /// The same of bfloat16, which is widened as it is packed, without its instructions: the bits are
  /// those of the product of the same floats, rounded once if the result is of bfloat16.
  int64_t (*bf16_scratch_floats)(const Bf16Problem& problem);
  void (*multiply_bf16)(const Bf16Problem& problem, float* scratch);
};

const MatmulKernels& matmul_kernels(CpuIsa isa);  // in products.cc
const MatmulKernels& matmul_kernels_baseline();
const MatmulKernels& matmul_kernels_avx2();
const MatmulKernels& matmul_kernels_avx512();

/// Whether to leave out the zeros of one side, found from some of its elements.
struct SparsePlan {
  bool worthwhile = false;
  bool of_b = false;           ///< The zeros of b, else those of a.
  int64_t capacity = 0;        ///< With more elements that are not zero it is not worthwhile.
  int64_t scratch_floats = 0;  ///< Aligned to 64 bytes.
};

struct SparseKernels {
  SparsePlan (*plan)(const MatmulProblem& problem);
  /// The same bits as MatmulKernels' (but for the sign of a sum that underflowed to zero), or false:
  /// too many elements are not zero, or the other side is not finite. Then c holds anything.
  bool (*multiply)(const MatmulProblem& problem, const SparsePlan& plan, float* scratch);
  /// The same of bfloat16.
  SparsePlan (*plan_bf16)(const Bf16Problem& problem);
  bool (*multiply_bf16)(const Bf16Problem& problem, const SparsePlan& plan, float* scratch);
};

const SparseKernels& sparse_product(CpuIsa isa);  // in products.cc
const SparseKernels& sparse_product_baseline();
const SparseKernels& sparse_product_avx2();
const SparseKernels& sparse_product_avx512();

}  // namespace strata::kernels
