#pragma once

// The packed side of a matrix product.

#include <algorithm>
#include <cstdint>

#include "kernels/matmul_kernels.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

namespace strata::kernels {
namespace {

constexpr int64_t kPanel = kTileVectors * kLanes;  // columns of a packed panel of a tile's width

/// Whole lines, so that every block of an aligned row is aligned.
constexpr int64_t block_k(int64_t k, int64_t most = kMaxBlockK) {
  if (most == kMaxBlockK && k <= kMaxOnlyBlockK) return k;
  const int64_t blocks = (k + most - 1) / most;
  return blocks == 1 ? k : round_up((k + blocks - 1) / blocks, kLine);
}

/// Of so many columns the next panel's. A wide panel is better shared: one of a single vector would
/// leave the processor waiting for loads.
template <int64_t kWide = kPanel>
constexpr int64_t panel_columns(int64_t columns) {
  const int64_t vectors = (columns + kLanes - 1) / kLanes;
  const bool share = kWide == 4 * kLanes && (vectors == 5 || vectors == 6 || vectors == 9);
  return std::min(columns, share ? 3 * kLanes : kWide);
}

/// Packs q[k, columns], panel by panel (panel_columns): each [k][panel], its width rounded up to
/// whole vectors, zeros behind the last column. bfloat16 is widened.
template <int64_t kWide = kPanel, typename Element>
inline void pack_panels(const ViewOf<Element>& q, int64_t k, int64_t columns, float* out) {
  if (q.column_stride != 1) {
    for (int64_t column = 0, width = 0; column < columns; column += width) {
      width = panel_columns<kWide>(columns - column);
      transpose<true>(q.data + column * q.column_stride, q.column_stride, width, k,
                      out + column * k, round_up(width, kLanes));
    }
    return;
  }
  // Row by row over all panels: the processor fetches ahead what it finds in long runs only.
  constexpr int64_t kRowsAhead = 4;
  const Element* from = q.data;
  const int64_t ahead = kRowsAhead * q.row_stride;
  for (int64_t i = 0; i < k; ++i, from += q.row_stride) {
    for (int64_t column = 0, width = 0; column < columns; column += width) {
      width = panel_columns<kWide>(columns - column);
      float* const to = out + column * k + i * round_up(width, kLanes);
      if (width == kWide) {
#pragma GCC unroll 8
        for (int64_t v = 0; v < kWide; v += kLanes) {
          __builtin_prefetch(from + ahead + column + v);
          store_aligned(to + v, load(from + column + v));
        }
      } else {
        for (int64_t v = 0; v < width; v += kLanes) {
          __builtin_prefetch(from + ahead + column + v);
          store_aligned(to + v, load(from + column + v, lanes(width - v)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
