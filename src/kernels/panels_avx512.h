#pragma once

// The packed side of a matrix product; see transpose_avx512.h for why all of it is unnamed.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/matmul_kernels.h"
#include "kernels/transpose_avx512.h"

namespace strata::kernels {
namespace {

constexpr int64_t kPanel = 4 * kLanes;  // columns of a packed panel

/// A panel of so many rows fills the first-level cache. It decides the order of sums: the bits.
constexpr int64_t kMaxBlockK = 192;

/// Whole vectors, so that every block of an aligned row is aligned.
constexpr int64_t block_k(int64_t k) {
  const int64_t blocks = (k + kMaxBlockK - 1) / kMaxBlockK;
  return blocks == 1 ? k : round_up((k + blocks - 1) / blocks, kLanes);
}

/// Of so many columns the next panel's. A panel of one vector would leave the processor waiting for
/// loads, so the last ones share.
constexpr int64_t panel_columns(int64_t columns) {
  const int64_t vectors = (columns + kLanes - 1) / kLanes;
  const bool share = vectors == 5 || vectors == 6 || vectors == 9;
  return std::min(columns, share ? 3 * kLanes : kPanel);
}

/// Packs q[k, columns], panel by panel (panel_columns): each [k][panel], its width rounded up to
/// whole vectors, zeros behind the last column.
inline void pack_panels(const MatrixView& q, int64_t k, int64_t columns, float* out) {
  if (q.column_stride != 1) {
    for (int64_t column = 0, width = 0; column < columns; column += width) {
      width = panel_columns(columns - column);
      transpose<true>(q.data + column * q.column_stride, q.column_stride, width, k,
                      out + column * k, round_up(width, kLanes));
    }
    return;
  }
  // Row by row over all panels: the processor fetches ahead what it finds in long runs only.
  constexpr int64_t kRowsAhead = 4;
  const float* from = q.data;
  const int64_t ahead = kRowsAhead * q.row_stride;
  for (int64_t i = 0; i < k; ++i, from += q.row_stride) {
    for (int64_t column = 0, width = 0; column < columns; column += width) {
      width = panel_columns(columns - column);
      float* const to = out + column * k + i * round_up(width, kLanes);
      if (width == kPanel) {
#pragma GCC unroll 4
        for (int64_t v = 0; v < kPanel; v += kLanes) {
          __builtin_prefetch(from + ahead + column + v);
          _mm512_store_ps(to + v, _mm512_loadu_ps(from + column + v));
        }
      } else {
        for (int64_t v = 0; v < width; v += kLanes) {
          const __mmask16 mask = lanes(width - v);
          __builtin_prefetch(from + ahead + column + v);
          _mm512_store_ps(to + v, _mm512_maskz_loadu_ps(mask, from + column + v));
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
