#include "tensor/half_tree_sum.h"

#include <algorithm>
#include <array>

#include "strata/core/error.h"

namespace strata::tensor {
namespace {

/// One block of the tree, in float; a level of the tree keeps one block.
class HalfBlockReducer {
 public:
  static constexpr int64_t kBlock = 1024;

  HalfBlockReducer(const TreeKernels& kernels, HalfFormat format, TreeOp op)
      : join_(kernels.f32.join[static_cast<size_t>(op)][0]),
        half_(format == HalfFormat::kFloat16 ? kernels.f16 : kernels.bf16) {}

  /// @return the block's reduction, in float; null if no source is present.
  const float* evaluate(const HalfSource* sources, int n, int64_t begin, int64_t size,
                        size_t depth = 0) {
    while (n > 0 && sources[n - 1].data == nullptr) --n;
    if (n == 0) return nullptr;
    if (n == 1) {
      if (sources[0].is_float) return static_cast<const float*>(sources[0].data) + begin;
      half_.widen(static_cast<const uint16_t*>(sources[0].data) + begin, size,
                  scratch_[depth].data());
      return scratch_[depth].data();
    }
    const int left = static_cast<int>(tree_left_count(n));
    // The right side uses blocks below this level's, which holds the left side meanwhile.
    const float* const sides[2] = {evaluate(sources, left, begin, size, depth),
                                   evaluate(sources + left, n - left, begin, size, depth + 1)};
    if (sides[0] == nullptr) return sides[1];
    if (sides[1] == nullptr) return sides[0];
    join_(sides, size, scratch_[depth].data());
    return scratch_[depth].data();
  }

  void narrow(const float* source, int64_t size, uint16_t* out) const {
    half_.narrow(source, size, out);
  }

 private:
  TreeKernel<float> join_;
  HalfKernels half_;
  alignas(64) std::array<std::array<float, kBlock>, 21> scratch_;  // enough for 2^20 sources
};

}  // namespace

void reduce_halves_in_tree_order_with(const TreeKernels& kernels, HalfFormat format, TreeOp op,
                                      const HalfSource* sources, int n, int64_t size,
                                      const HalfResult& result) {
  STRATA_DCHECK(n >= 0 && n <= (1 << 20));
  constexpr int64_t kBlock = HalfBlockReducer::kBlock;
  HalfBlockReducer reducer(kernels, format, op);
  alignas(64) std::array<float, kBlock> divided;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t count = std::min(kBlock, size - begin);
    const float* sum = reducer.evaluate(sources, n, begin, count);
    if (sum == nullptr) {
      divided.fill(0);
      sum = divided.data();
    }
    if (result.is_float) {
      float* const out = static_cast<float*>(result.data) + begin;
      if (sum != out) std::copy_n(sum, count, out);
      continue;
    }
    if (result.divisor != 1) {
      for (int64_t i = 0; i < count; ++i) divided[static_cast<size_t>(i)] = sum[i] / result.divisor;
      sum = divided.data();
    }
    reducer.narrow(sum, count, static_cast<uint16_t*>(result.data) + begin);
  }
}

void reduce_halves_in_tree_order(HalfFormat format, TreeOp op, const HalfSource* sources, int n,
                                 int64_t size, const HalfResult& result) {
  static const TreeKernels& kernels = tree_kernels(best_cpu_isa());
  reduce_halves_in_tree_order_with(kernels, format, op, sources, n, size, result);
}

}  // namespace strata::tensor
