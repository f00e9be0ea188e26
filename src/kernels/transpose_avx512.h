#pragma once

// For the kernels written for AVX-512 alone. In an unnamed namespace, so that no code for this
// instruction set is merged into files that are compiled for all processors.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

namespace strata::kernels {
namespace {

constexpr int64_t kLanes = 16;

constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

inline __mmask16 lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffff : (1u << count) - 1);
}

// One step of a transposition on each group of 4 lanes, or on whole groups:
// __builtin_shufflevector, because GCC 12 warns inside its own intrinsics of these.
#define STRATA_LANES(x, a, b, c, d, step)                                                       \
  __builtin_shufflevector(x[0], x[1], a, b, c, d, a + step, b + step, c + step, d + step,       \
                          a + 2 * step, b + 2 * step, c + 2 * step, d + 2 * step, a + 3 * step, \
                          b + 3 * step, c + 3 * step, d + 3 * step)
#define STRATA_GROUPS(x, a, b)                                                                \
  __builtin_shufflevector(x[0], x[1], a, a + 1, a + 2, a + 3, b, b + 1, b + 2, b + 3, a + 16, \
                          a + 17, a + 18, a + 19, b + 16, b + 17, b + 18, b + 19)

/// Transposes 16 x 16 in registers: r[i][j] becomes r[j][i].
inline __attribute__((always_inline)) void transpose(__m512 (&r)[16]) {
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    const __m512 pair[2] = {r[i], r[i + 1]};
    t[i] = STRATA_LANES(pair, 0, 16, 1, 17, 4);
    t[i + 1] = STRATA_LANES(pair, 2, 18, 3, 19, 4);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 4) {
    const __m512 even[2] = {t[i], t[i + 2]};
    const __m512 odd[2] = {t[i + 1], t[i + 3]};
    r[i] = STRATA_LANES(even, 0, 1, 16, 17, 4);
    r[i + 1] = STRATA_LANES(even, 2, 3, 18, 19, 4);
    r[i + 2] = STRATA_LANES(odd, 0, 1, 16, 17, 4);
    r[i + 3] = STRATA_LANES(odd, 2, 3, 18, 19, 4);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 upper[2] = {r[i], r[i + 4]};
    const __m512 lower[2] = {r[i + 8], r[i + 12]};
    t[i] = STRATA_GROUPS(upper, 0, 8);
    t[i + 4] = STRATA_GROUPS(upper, 4, 12);
    t[i + 8] = STRATA_GROUPS(lower, 0, 8);
    t[i + 12] = STRATA_GROUPS(lower, 4, 12);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 even[2] = {t[i], t[i + 8]};
    const __m512 odd[2] = {t[i + 4], t[i + 12]};
    r[i] = STRATA_GROUPS(even, 0, 8);
    r[i + 4] = STRATA_GROUPS(odd, 0, 8);
    r[i + 8] = STRATA_GROUPS(even, 4, 12);
    r[i + 12] = STRATA_GROUPS(odd, 4, 12);
  }
}

#undef STRATA_LANES
#undef STRATA_GROUPS

/// Floats of a row that are fetched ahead.
constexpr int64_t kAhead = 4 * kLanes;

/// `row` one row further. The compiler would keep a pointer to each of sixteen rows, on the stack.
template <typename T>
inline __attribute__((always_inline)) void step(T*& row, int64_t bytes) {
  asm("add %1, %0" : "+r"(row) : "r"(bytes) : "cc");
}

/// A whole block of 16 x 16.
template <bool kBias>
inline __attribute__((always_inline)) void transpose_block(const float* in, int64_t in_stride,
                                                           float* out, int64_t out_stride,
                                                           __m512 bias) {
  const int64_t in_bytes = in_stride * static_cast<int64_t>(sizeof(float));
  const int64_t out_bytes = out_stride * static_cast<int64_t>(sizeof(float));
  __m512 r[16];
  // The processor does not follow sixteen rows at once.
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    r[i] = _mm512_loadu_ps(in);
    __builtin_prefetch(in + kAhead);
    step(in, in_bytes);
  }
  transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    _mm512_storeu_ps(out, kBias ? _mm512_add_ps(r[i], bias) : r[i]);
    step(out, out_bytes);
  }
}

/// Part of a block: `height` rows of `width`; whole vectors are written where `store` says so.
inline __attribute__((noinline)) void transpose_part(const float* in, int64_t in_stride,
                                                     int64_t height, int64_t width, float* out,
                                                     int64_t out_stride, __mmask16 store,
                                                     const float* bias) {
  __m512 r[16];
  const __mmask16 load = lanes(width);
  for (int i = 0; i < 16; ++i) {
    r[i] = i < height ? _mm512_maskz_loadu_ps(load, in + i * in_stride) : _mm512_setzero_ps();
  }
  transpose(r);
  for (int i = 0; i < width; ++i) {
    if (bias != nullptr) r[i] = _mm512_add_ps(r[i], _mm512_maskz_loadu_ps(lanes(height), bias));
    _mm512_mask_storeu_ps(out + i * out_stride, store, r[i]);
  }
}

/// out[c, r] = in[r, c] (+ bias[r]). With kFill, rows of `out` are written up to a multiple of 16,
/// zeros behind the end.
template <bool kFill>
inline void transpose(const float* in, int64_t in_stride, int64_t rows, int64_t columns, float* out,
                      int64_t out_stride, const float* bias = nullptr) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    const int64_t height = std::min(kLanes, rows - row);
    const float* from = in + row * in_stride;
    float* to = out + row;
    int64_t column = 0;
    if (height == kLanes) {
      const __m512 joined = bias != nullptr ? _mm512_loadu_ps(bias + row) : _mm512_setzero_ps();
      for (; column + kLanes <= columns; column += kLanes) {
        float* const block = to + column * out_stride;
        if (bias != nullptr) {
          transpose_block<true>(from + column, in_stride, block, out_stride, joined);
        } else {
          transpose_block<false>(from + column, in_stride, block, out_stride, joined);
        }
      }
    }
    for (; column < columns; column += kLanes) {
      transpose_part(from + column, in_stride, height, std::min(kLanes, columns - column),
                     to + column * out_stride, out_stride, kFill ? 0xffff : lanes(height),
                     bias != nullptr ? bias + row : nullptr);
    }
  }
}

}  // namespace
}  // namespace strata::kernels
