#include "tensor/tree_sum.h"

#include <ATen/ops/add.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "strata/core/error.h"
#include "tensor/tree_kernels.h"

namespace strata::tensor {

const TreeKernels& tree_kernels(CpuIsa isa) { return STRATA_KERNELS_FOR(isa, tree_kernels); }

namespace {

// Partial sums of larger trees live in blocks that fit the first-level cache.
constexpr int64_t kBlockBytes = 4096;

template <typename T>
const TreeKernelsOf<T>& kernels_of(const TreeKernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return kernels.f64;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return kernels.i32;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return kernels.i64;
  } else if constexpr (std::is_same_v<T, int16_t>) {
    return kernels.i16;
  } else if constexpr (std::is_same_v<T, int8_t>) {
    return kernels.i8;
  } else {
    return kernels.u8;
  }
}

bool all_present(auto sources, int n) {
  return std::none_of(sources, sources + n, [](const void* source) { return source == nullptr; });
}

/// Evaluates trees over one block. Up to four sources are joined in registers; above that each
/// level of the tree keeps one partial block.
template <typename T>
class BlockReducer {
 public:
  static constexpr int64_t kBlock = kBlockBytes / static_cast<int64_t>(sizeof(T));
  using Block = std::array<T, static_cast<size_t>(kBlock)>;

  BlockReducer(const TreeKernels& kernels, int op) : joins_(kernels_of<T>(kernels).join[op]) {}

  /// @return where the result is: `out`, or a lone source itself, or nullptr if none is present.
  const T* evaluate(const T* const* sources, int n, int64_t size, T* out, size_t depth = 0) {
    // Joins with absent right sides change nothing, and a tree's left part does not depend on its
    // size.
    while (n > 0 && sources[n - 1] == nullptr) --n;
    if (n == 0) return nullptr;
    if (n == 1) return sources[0];
    if (n <= 4 && all_present(sources, n)) {
      joins_[n - 2](sources, size, out);
      return out;
    }
    const int left = static_cast<int>(tree_left_count(n));
    const T* const sides[2] = {evaluate(sources, left, size, scratch_[depth].data(), depth + 1),
                               evaluate(sources + left, n - left, size, out, depth + 1)};
    if (sides[0] == nullptr) return sides[1];
    if (sides[1] == nullptr) return sides[0];
    joins_[0](sides, size, out);
    return out;
  }

 private:
  const TreeKernel<T>* joins_;
  alignas(64) std::array<Block, 20> scratch_;  // by depth: enough for 2^20 sources
};

}  // namespace

template <typename T>
void reduce_in_tree_order_with(const TreeKernels& kernels, int op, const T* const* sources, int n,
                               int64_t size, T* out) {
  STRATA_DCHECK(n >= 0 && n <= (1 << 20));
  if (size <= 0) return;
  while (n > 0 && sources[n - 1] == nullptr) --n;
  if (n == 0) {
    std::memset(out, 0, static_cast<size_t>(size) * sizeof(T));
    return;
  }
  if (n == 1) {
    if (sources[0] != out) std::memcpy(out, sources[0], static_cast<size_t>(size) * sizeof(T));
    return;
  }
  if (n <= 4 && all_present(sources, n)) {
    kernels_of<T>(kernels).join[op][n - 2](sources, size, out);
    return;
  }

  BlockReducer<T> reducer(kernels, op);
  std::array<const T*, 64> few;
  std::vector<const T*> many;
  const T** block = few.data();
  if (static_cast<size_t>(n) > few.size()) {
    many.resize(static_cast<size_t>(n));
    block = many.data();
  }
  // A partial result must not overwrite a source that is still to be read.
  const bool in_place = std::find(sources, sources + n, out) != sources + n;
  alignas(64) typename BlockReducer<T>::Block apart;
  for (int64_t begin = 0; begin < size; begin += BlockReducer<T>::kBlock) {
    const int64_t count = std::min(BlockReducer<T>::kBlock, size - begin);
    for (int i = 0; i < n; ++i) block[i] = sources[i] == nullptr ? nullptr : sources[i] + begin;
    const T* const result =
        reducer.evaluate(block, n, count, in_place ? apart.data() : out + begin);
    if (result != out + begin)
      std::memcpy(out + begin, result, static_cast<size_t>(count) * sizeof(T));
  }
}

template <typename T>
void reduce_in_tree_order(TreeOp op, const T* const* sources, int n, int64_t size, T* out) {
  static const TreeKernels& kernels = tree_kernels(best_cpu_isa());
  reduce_in_tree_order_with(kernels, static_cast<int>(op), sources, n, size, out);
}

#define STRATA_INSTANTIATE(T)                                                                     \
  template void reduce_in_tree_order_with(const TreeKernels&, int, const T* const*, int, int64_t, \
                                          T*);                                                    \
  template void reduce_in_tree_order(TreeOp, const T* const*, int, int64_t, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(double);
STRATA_INSTANTIATE(int32_t);
STRATA_INSTANTIATE(int64_t);
STRATA_INSTANTIATE(int16_t);
STRATA_INSTANTIATE(int8_t);
STRATA_INSTANTIATE(uint8_t);
#undef STRATA_INSTANTIATE

at::Tensor reduce_in_tree_order(TreeOp op, c10::ArrayRef<at::Tensor> sources) {
  if (sources.empty()) return {};
  if (sources.size() == 1) return sources[0];
  const auto left_count =
      static_cast<size_t>(tree_left_count(static_cast<int64_t>(sources.size())));
  const at::Tensor left = reduce_in_tree_order(op, sources.slice(0, left_count));
  const at::Tensor right = reduce_in_tree_order(op, sources.slice(left_count));
  if (!left.defined()) return right;
  if (!right.defined()) return left;
  switch (op) {
    case TreeOp::kSum:
      return at::add(left, right);
    case TreeOp::kMin:
      return at::minimum(left, right);
    case TreeOp::kMax:
      return at::maximum(left, right);
  }
  STRATA_DCHECK(false);
  return {};
}

}  // namespace strata::tensor
