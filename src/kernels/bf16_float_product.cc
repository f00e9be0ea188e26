#include "kernels/bf16_float_product.h"

#include <algorithm>
#include <tuple>

#include "core/cpu_isa.h"
#include "kernels/bf16_rows_kernels.h"
#include "kernels/kernel_threads.h"
#include "kernels/products.h"
#include "kernels/scratch.h"

namespace strata::kernels {
namespace {

/// A block of a widened side takes half of a second-level cache at most.
constexpr int64_t kBlockFloats = int64_t{1} << 17;
constexpr int64_t kLeastRows = 32;

const Bf16RowsKernels& bf16_rows_kernels() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), bf16_rows_kernels);
}

/// `from[rows, columns]` as floats without gaps, in the same order of dimensions.
MatrixView widen(const Bf16View& from, int64_t rows, int64_t columns, float* to) {
  const auto widen_row = bf16_rows_kernels().widen;
  const bool by_rows = from.column_stride == 1;
  const int64_t count = by_rows ? rows : columns;
  const int64_t length = by_rows ? columns : rows;
  const int64_t stride = by_rows ? from.row_stride : from.column_stride;
  if (stride == length) {
    widen_row(from.data, count * length, to);
  } else {
    for (int64_t i = 0; i < count; ++i) widen_row(from.data + i * stride, length, to + i * length);
  }
  return by_rows ? MatrixView{to, length, 1} : MatrixView{to, 1, length};
}

void multiply_block(const Bf16Problem& block, const MatrixView& a, const MatrixView& b,
                    float* sums) {
  const bool rounds = block.c != nullptr;
  multiply_here({block.m, block.n, block.k, a, b, block.bias, rounds ? sums : block.c_float,
                 rounds ? block.n : block.c_stride});
  if (!rounds) return;
  const auto narrow_row = bf16_rows_kernels().narrow;
  for (int64_t row = 0; row < block.m; ++row) {
    narrow_row(sums + row * block.n, block.n, block.c + row * block.c_stride);
  }
}

}  // namespace

void bf16_float_product(const Bf16Problem& problem) {
  const auto [m, n, k] = std::tuple(problem.m, problem.n, problem.k);
  const bool by_columns = n >= m;  // b is the larger side
  const int64_t size = by_columns ? n : m;
  const int64_t other = by_columns ? m : n;
  const Scratch small(other * k);
  const MatrixView whole =
      by_columns ? widen(problem.a, m, k, small.data()) : widen(problem.b, k, n, small.data());
  const int64_t part = std::min(size, std::max(kLeastRows, kBlockFloats / std::max(k, other)));
  parallel_for(
      0, (size + part - 1) / part, std::max<int64_t>(1, kPartMultiplications / (part * other * k)),
      [&](int64_t begin, int64_t end) {
        const Scratch widened(part * k);
        const Scratch sums(part * other);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t from = i * part;
          const int64_t count = std::min(part, size - from);
          Bf16Problem block = problem;
          const int64_t to = by_columns ? from : from * problem.c_stride;
          if (block.c != nullptr) block.c += to;
          if (block.c_float != nullptr) block.c_float += to;
          if (by_columns) {
            block.n = count;
            block.b.data += from * problem.b.column_stride;
            if (block.bias != nullptr) block.bias += from;
            multiply_block(block, whole, widen(block.b, k, count, widened.data()), sums.data());
          } else {
            block.m = count;
            block.a.data += from * problem.a.row_stride;
            multiply_block(block, widen(block.a, count, k, widened.data()), whole, sums.data());
          }
        }
      });
}

}  // namespace strata::kernels
