#pragma once

// What conv_winograd_*.inc share: how images are divided into tiles, and the transform of the
// inputs.

#include <algorithm>
#include <cstdint>

#include "kernels/conv_kernels.h"
#include "kernels/conv_planes.h"
#include "kernels/simd.h"

namespace strata::kernels {
namespace {

/// Tiles (of 2 x 2 outputs) that are computed together, across rows and images.
constexpr int64_t kBlock = 64;
constexpr int64_t kPoints = 16;  // of a transformed tile

/// Floats between two points of transformed data that has `floats` a point. An odd number of cache
/// lines, as the points of a tile are written one after the other.
constexpr int64_t point_stride(int64_t floats) { return round_up(floats, 2 * kLine) + kLine; }

/// kLanes tiles side by side: out[4 i + j] = (B^T d B)[i, j] of the 4 x 4 inputs d of each tile,
/// whose first row of the first tile is at `in`. The first lanes of them are written.
inline __attribute__((always_inline)) void transform_inputs(const float* in, int64_t row_stride,
                                                            Lanes first, float* out,
                                                            int64_t stride) {
  constexpr int64_t kOffsets[4] = {0, kLanes, 2, kLanes + 2};
  Vec rows[4][4];
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    const float* from = in + kOffsets[part];
    const Vec d0 = load(from);
    const Vec d1 = load(from + row_stride);
    const Vec d2 = load(from + 2 * row_stride);
    const Vec d3 = load(from + 3 * row_stride);
    rows[0][part] = sub(d0, d2);
    rows[1][part] = add(d1, d2);
    rows[2][part] = sub(d2, d1);
    rows[3][part] = sub(d1, d3);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, out += 4 * stride) {
    const Vec c0 = even(rows[i][0], rows[i][1]);
    const Vec c1 = odd(rows[i][0], rows[i][1]);
    const Vec c2 = even(rows[i][2], rows[i][3]);
    const Vec c3 = odd(rows[i][2], rows[i][3]);
    store(out, first, sub(c0, c2));
    store(out + stride, first, add(c1, c2));
    store(out + 2 * stride, first, sub(c2, c1));
    store(out + 3 * stride, first, sub(c1, c3));
  }
}

struct Tiling {
  Tiling(const ConvShape& shape, int64_t channels)
      : channels(channels),
        rows((shape.out_height() + 1) / 2),
        columns((shape.out_width() + 1) / 2),
        planes(shape, 2 * rows + 2, 2 * columns + 2),
        stride(point_stride(channels * kBlock)) {}

  int64_t tiles() const { return rows * columns; }
  /// Vectors run over the end of the last plane.
  int64_t planes_floats() const { return channels * planes.stride + 4 * kLine; }
  int64_t block_floats() const { return kPoints * stride; }

  /// Transforms tiles [begin, end) of the image in `image` (as `planes` lays it out) into
  /// block[point][channel][kBlock], from tile `at` of the block on. What is behind them in the
  /// block is overwritten.
  void transform(const float* image, int64_t begin, int64_t end, float* block, int64_t at) const {
    const int64_t first_row = begin / columns;
    const int64_t first_column = begin % columns;
    for (int64_t c = 0; c < channels; ++c, image += planes.stride, block += kBlock) {
      const float* row = image + first_row * 2 * planes.row_stride;
      int64_t column = first_column;
      for (int64_t tile = begin; tile < end;) {
        const int64_t count = std::min({end - tile, columns - column, kLanes});
        const int64_t place = at + tile - begin;
        const bool room = place + kLanes <= kBlock;
        transform_inputs(row + 2 * column, planes.row_stride, lanes(room ? kLanes : count),
                         block + place, stride);
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
