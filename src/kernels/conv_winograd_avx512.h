#pragma once

// What conv_winograd_*_avx512.cc share: how images are divided into tiles, and the transform of
// the inputs.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/conv_kernels.h"
#include "kernels/conv_planes_avx512.h"

namespace strata::kernels {
namespace {

/// Tiles (of 2 x 2 outputs) that are computed together, across rows and images.
constexpr int64_t kBlock = 64;
constexpr int64_t kPoints = 16;  // of a transformed tile

/// Floats between two points of transformed data that has `floats` a point. An odd number of cache
/// lines, as the points of a tile are written one after the other.
constexpr int64_t point_stride(int64_t floats) { return round_up(floats, 2 * kLanes) + kLanes; }

/// The even or odd ones of 32 floats.
#define STRATA_EVERY_SECOND(a, b, s)                                                           \
  __builtin_shufflevector(a, b, s, s + 2, s + 4, s + 6, s + 8, s + 10, s + 12, s + 14, s + 16, \
                          s + 18, s + 20, s + 22, s + 24, s + 26, s + 28, s + 30)

/// 16 tiles side by side: out[4 i + j] = (B^T d B)[i, j] of the 4 x 4 inputs d of each tile, whose
/// first row of the first tile is at `in`.
inline __attribute__((always_inline)) void transform_inputs(const float* in, int64_t row_stride,
                                                            __mmask16 mask, float* out,
                                                            int64_t stride) {
  constexpr int kOffsets[4] = {0, kLanes, 2, kLanes + 2};
  __m512 rows[4][4];
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    const float* from = in + kOffsets[part];
    const __m512 d0 = _mm512_loadu_ps(from);
    const __m512 d1 = _mm512_loadu_ps(from + row_stride);
    const __m512 d2 = _mm512_loadu_ps(from + 2 * row_stride);
    const __m512 d3 = _mm512_loadu_ps(from + 3 * row_stride);
    rows[0][part] = _mm512_sub_ps(d0, d2);
    rows[1][part] = _mm512_add_ps(d1, d2);
    rows[2][part] = _mm512_sub_ps(d2, d1);
    rows[3][part] = _mm512_sub_ps(d1, d3);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, out += 4 * stride) {
    const __m512 c0 = STRATA_EVERY_SECOND(rows[i][0], rows[i][1], 0);
    const __m512 c1 = STRATA_EVERY_SECOND(rows[i][0], rows[i][1], 1);
    const __m512 c2 = STRATA_EVERY_SECOND(rows[i][2], rows[i][3], 0);
    const __m512 c3 = STRATA_EVERY_SECOND(rows[i][2], rows[i][3], 1);
    _mm512_mask_storeu_ps(out, mask, _mm512_sub_ps(c0, c2));
    _mm512_mask_storeu_ps(out + stride, mask, _mm512_add_ps(c1, c2));
    _mm512_mask_storeu_ps(out + 2 * stride, mask, _mm512_sub_ps(c2, c1));
    _mm512_mask_storeu_ps(out + 3 * stride, mask, _mm512_sub_ps(c1, c3));
  }
}

#undef STRATA_EVERY_SECOND

struct Tiling {
  Tiling(const ConvShape& shape, int64_t channels)
      : channels(channels),
        rows((shape.out_height() + 1) / 2),
        columns((shape.out_width() + 1) / 2),
        planes(shape, 2 * rows + 2, 2 * columns + 2),
        stride(point_stride(channels * kBlock)) {}

  int64_t tiles() const { return rows * columns; }
  /// Vectors run over the end of the last plane.
  int64_t planes_floats() const { return channels * planes.stride + 4 * kLanes; }
  int64_t block_floats() const { return kPoints * stride; }

  /// Transforms tiles [begin, end) of the image in `image` (as `planes` lays it out) into
  /// block[point][channel][kBlock], from tile `at` of the block on.
  void transform(const float* image, int64_t begin, int64_t end, float* block, int64_t at) const {
    const int64_t first_row = begin / columns;
    const int64_t first_column = begin % columns;
    for (int64_t c = 0; c < channels; ++c, image += planes.stride, block += kBlock) {
      const float* row = image + first_row * 2 * planes.row_stride;
      int64_t column = first_column;
      for (int64_t tile = begin; tile < end;) {
        const int64_t count = std::min({end - tile, columns - column, kLanes});
        transform_inputs(row + 2 * column, planes.row_stride, lanes(count),
                         block + at + tile - begin, stride);
        tile += count;
        column += count;
        if (column == columns) {
          column = 0;
          row += 2 * planes.row_stride;
        }
      }
    }
  }

  int64_t channels;
  int64_t rows;
  int64_t columns;
  Planes planes;
  int64_t stride;  ///< Between the points of a block.
};

}  // namespace
}  // namespace strata::kernels
