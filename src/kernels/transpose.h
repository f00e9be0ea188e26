#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/simd.h"

namespace strata::kernels {
namespace {

/// Floats of a row that are fetched ahead.
constexpr int64_t kAhead = 4 * kLine;

/// `row` one row further. The compiler would keep a pointer to each of sixteen rows, on the stack.
template <typename T>
inline __attribute__((always_inline)) void step(T*& row, int64_t stride) {
  row += stride;
  asm("" : "+r"(row));
}

/// A whole block of kLanes x kLanes.
template <bool kBias, typename In, typename Out>
inline __attribute__((always_inline)) void transpose_block(const In* in, int64_t in_stride, Out* out,
                                                           int64_t out_stride, Vec bias) {
  Vec r[kLanes];
  // The processor does not follow so many rows at once.
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    r[i] = load(in);
    __builtin_prefetch(in + kAhead);
    step(in, in_stride);
  }
  transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    store(out, kBias ? add(r[i], bias) : r[i]);
    step(out, out_stride);
  }
}

/// Part of a block: `height` rows of `width`; whole vectors are written with kFill.
template <bool kFill, typename In, typename Out>
inline __attribute__((noinline)) void transpose_part(const In* in, int64_t in_stride,
                                                     int64_t height, int64_t width, Out* out,
                                                     int64_t out_stride, const float* bias) {
  Vec r[kLanes];
  const Lanes wide = lanes(width);
  const Lanes high = lanes(height);
  for (int i = 0; i < kLanes; ++i) r[i] = i < height ? load(in + i * in_stride, wide) : zero();
  transpose(r);
  for (int i = 0; i < width; ++i) {
    if (bias != nullptr) r[i] = add(r[i], load(bias, high));
    if (kFill) {
      store(out + i * out_stride, r[i]);
    } else {
      store(out + i * out_stride, high, r[i]);
    }
  }
}

/// out[c, r] = in[r, c] (+ bias[r]), of float or bfloat16. With kFill, rows of `out` are written up to
/// a multiple of kLanes, zeros behind the end.
template <bool kFill, typename In, typename Out>
inline void transpose(const In* in, int64_t in_stride, int64_t rows, int64_t columns, Out* out,
                      int64_t out_stride, const float* bias = nullptr) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    const int64_t height = std::min(kLanes, rows - row);
    const In* from = in + row * in_stride;
    Out* to = out + row;
    int64_t column = 0;
    if (height == kLanes) {
      const Vec joined = bias != nullptr ? load(bias + row) : zero();
      for (; column + kLanes <= columns; column += kLanes) {
        Out* const block = to + column * out_stride;
        if (bias != nullptr) {
          transpose_block<true>(from + column, in_stride, block, out_stride, joined);
        } else {
          transpose_block<false>(from + column, in_stride, block, out_stride, joined);
        }
      }
    }
    for (; column < columns; column += kLanes) {
      transpose_part<kFill>(from + column, in_stride, height, std::min(kLanes, columns - column),
                            to + column * out_stride, out_stride,
                            bias != nullptr ? bias + row : nullptr);
    }
  }
}

}  // namespace
}  // namespace strata::kernels
