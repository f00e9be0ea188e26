#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

namespace strata::tensor {

enum class TreeOp { kSum = 0, kMin = 1, kMax = 2 };

/// The number of ids in the left half of a tree over `count` >= 2 of them: the largest power of two
/// below `count`. The tree over [lo, hi) joins the trees over [lo, lo + left) and [lo + left, hi),
/// so aligned subtrees of a power-of-two size are the same in every tree that holds them:
/// ((s0+s1)+(s2+s3))+((s4+s5)+s6). Threads, processes and hosts reduce such subtrees.
constexpr int64_t tree_left_count(int64_t count) {
  int64_t left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

/// Reduces `n` arrays of `size` elements into `out`, element by element, in the order of the tree
/// over their ids. A null source is absent: a subtree whose sources are all absent is absent, and a
/// join with one is the other side, unchanged. With no source present `out` becomes zeros (any op).
///
/// The bits depend on the values and on which sources are present; not on how a range is cut, on
/// alignment or on the processor. In min and max a NaN wins, as in libtorch.
///
/// @param out  may be one of the sources (the same pointer); no other overlap.
/// Threads: any, on disjoint ranges.  Cost: each source is read once, `out` written once; cut large
/// arrays only to share them between threads, not for the cache.
template <typename T>
void reduce_in_tree_order(TreeOp op, const T* const* sources, int n, int64_t size, T* out);

/// reduce_in_tree_order with kSum.
template <typename T>
void sum_in_tree_order(const T* const* sources, int n, int64_t size, T* out) {
  reduce_in_tree_order(TreeOp::kSum, sources, n, size, out);
}

extern template void reduce_in_tree_order(TreeOp, const float* const*, int, int64_t, float*);
extern template void reduce_in_tree_order(TreeOp, const double* const*, int, int64_t, double*);
extern template void reduce_in_tree_order(TreeOp, const int32_t* const*, int, int64_t, int32_t*);
extern template void reduce_in_tree_order(TreeOp, const int64_t* const*, int, int64_t, int64_t*);

extern template void reduce_in_tree_order(TreeOp, const int16_t* const*, int, int64_t, int16_t*);
extern template void reduce_in_tree_order(TreeOp, const int8_t* const*, int, int64_t, int8_t*);
extern template void reduce_in_tree_order(TreeOp, const uint8_t* const*, int, int64_t, uint8_t*);

enum class HalfFormat { kFloat16, kBFloat16 };

/// A value of 16-bit floats, or a sum of some, which is kept in float. Absent: null.
struct HalfSource {
  const void* data = nullptr;
  bool is_float = false;
};

/// The form of the result: as float, or divided by `divisor` and rounded to 16 bits.
struct HalfResult {
  void* data = nullptr;
  bool is_float = false;
  float divisor = 1;
};

/// reduce_in_tree_order for 16-bit floats: everything is added in float and rounded once, at the
/// end. With no source present the result becomes zeros.
/// @param result  Its memory may be that of a source of the same width; no other overlap.
void reduce_halves_in_tree_order(HalfFormat format, TreeOp op, const HalfSource* sources, int n,
                                 int64_t size, const HalfResult& result);

/// The same tree by ATen operators: any device and dtype (16-bit floats: convert them to float
/// before and back afterwards). Undefined tensors are absent; undefined if all are. With one tensor
/// present it is that tensor itself, not a copy.
at::Tensor reduce_in_tree_order(TreeOp op, c10::ArrayRef<at::Tensor> sources);

}  // namespace strata::tensor
