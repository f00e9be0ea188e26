#pragma once

// What products of bfloat16 by AVX512_BF16 and by AMX share: the packed side, in which a lane has two steps of k.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/bf16_matmul_kernels.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

namespace strata::kernels {
namespace {

inline __m512i pair_of(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/// Pairs of elements [0, count) of rows 2i and 2i + 1. Where row 2i + 1 does not exist, it counts as
/// zeros.
inline __m512i load_pairs(const uint16_t* even, int64_t stride, bool has_odd, __mmask16 mask) {
  const __m256i odd =
      has_odd ? _mm256_maskz_loadu_epi16(mask, even + stride) : _mm256_setzero_si256();
  return pair_of(_mm256_maskz_loadu_epi16(mask, even), odd);
}

/// Packs q[k, columns], whose columns lie side by side: [pair][width].
inline void pack_side_by_side(const Bf16View& q, int64_t k, int64_t columns, int64_t width,
                              uint32_t* out) {
  for (int64_t i = 0; i < k; i += 2, out += width) {
    const uint16_t* const from = q.data + i * q.row_stride;
    for (int64_t v = 0; v < columns; v += kLanes) {
      _mm512_store_si512(out + v,
                         load_pairs(from + v, q.row_stride, i + 1 < k, lanes(columns - v)));
    }
  }
}

/// Packs q[k, columns], whose rows lie side by side: pairs are there already and are transposed.
inline void pack_by_columns(const Bf16View& q, int64_t k, int64_t columns, int64_t width,
                            uint32_t* out) {
  const int64_t pairs = (k + 1) / 2;
  for (int64_t column = 0; column < columns; column += kLanes) {
    const int64_t count = std::min(kLanes, columns - column);
    const uint16_t* const from = q.data + column * q.column_stride;
    for (int64_t pair = 0; pair < pairs; pair += kLanes) {
      const int64_t left = k - 2 * pair;
      const __mmask32 mask = left >= 32 ? 0xffffffffu : (1u << left) - 1;
      __m512 r[16];
      for (int64_t i = 0; i < kLanes; ++i) {
        r[i] = i < count ? _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(
                               mask, from + i * q.column_stride + 2 * pair))
                         : _mm512_setzero_ps();
      }
      transpose(r);
      const int64_t end = std::min(kLanes, pairs - pair);
      for (int64_t i = 0; i < end; ++i) {
        _mm512_store_ps(reinterpret_cast<float*>(out + (pair + i) * width + column), r[i]);
      }
    }
  }
}

/// Rounds rows of floats.
inline void round_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                       uint16_t* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; i += kLanes) {
      const __mmask16 mask = lanes(columns - i);
      const __m512 value = _mm512_maskz_loadu_ps(mask, from + row * from_stride + i);
      _mm256_mask_storeu_epi16(to + row * to_stride + i, mask, (__m256i)_mm512_cvtneps_pbh(value));
    }
  }
}

}  // namespace
}  // namespace strata::kernels
