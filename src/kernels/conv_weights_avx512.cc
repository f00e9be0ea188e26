// The gradient of a convolution's weights, [in_channels * taps, out_channels] = inputs x outputs'
// gradients, summed over positions and images. Vectors lie along the output channels, for which an
// image's gradients are transposed; the inputs are read in place, one position at a time.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/conv_kernels.h"
#include "kernels/conv_planes_avx512.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMaxRows = 12;
/// Positions whose transposed gradients fit the first-level cache. They decide the order of sums:
/// the bits.
constexpr int64_t kBlockPositions = 128;

/// Rows (input channel and tap) of a tile that is `vectors` wide.
constexpr int64_t tile_rows(int64_t vectors) { return vectors == 4 ? 6 : vectors == 3 ? 8 : 12; }

/// dw[kRows, kVectors * 16] (+)= the sums over `height` x `width` positions.
template <int kRows, int kVectors>
void tile(int64_t height, int64_t width, const float* x, int64_t row_stride, const int32_t* offset,
          const float* dy, float* dw, bool add) {
  const float* from[kRows];
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    from[r] = x + offset[r];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  int64_t at = 0;
  for (int64_t row = 0; row < height; ++row, at += row_stride - width) {
    for (const int64_t end = at + width; at < end; ++at, dy += kVectors * kLanes) {
      __m512 b[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) b[v] = _mm512_load_ps(dy + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m512 a = _mm512_set1_ps(from[r][at]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(a, b[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v, dw += kLanes) {
      _mm512_store_ps(dw, add ? _mm512_add_ps(_mm512_load_ps(dw), sum[r][v]) : sum[r][v]);
    }
  }
}

using Tile = void (*)(int64_t, int64_t, const float*, int64_t, const int32_t*, const float*, float*,
                      bool);

template <int kVectors>
constexpr Tile kTiles[kMaxRows] = {
    tile<1, kVectors>,
    tile<2, kVectors>,
    tile<3, kVectors>,
    tile<4, kVectors>,
    tile<5, kVectors>,
    tile<6, kVectors>,
    kVectors <= 3 ? tile<kVectors <= 3 ? 7 : 1, kVectors> : nullptr,
    kVectors <= 3 ? tile<kVectors <= 3 ? 8 : 1, kVectors> : nullptr,
    kVectors <= 2 ? tile<kVectors <= 2 ? 9 : 1, kVectors> : nullptr,
    kVectors <= 2 ? tile<kVectors <= 2 ? 10 : 1, kVectors> : nullptr,
    kVectors <= 2 ? tile<kVectors <= 2 ? 11 : 1, kVectors> : nullptr,
    kVectors <= 2 ? tile<kVectors <= 2 ? 12 : 1, kVectors> : nullptr,
};

/// [vectors - 1][rows - 1]
constexpr const Tile* kTileTable[4] = {kTiles<1>, kTiles<2>, kTiles<3>, kTiles<4>};

/// Scratch memory of a part, in this order.
struct Layout {
  Layout(const ConvShape& shape, const ConvPart& part)
      : panel(std::min(kConvPanel, shape.out_channels - part.out_begin)),
        width(round_up(panel, kLanes)),
        depth((part.in_end - part.in_begin) * shape.taps()),
        padded(shape.pad_height > 0 || shape.pad_width > 0),
        planes(shape),
        dw(0),
        dbias(dw + depth * width),
        dy(dbias + width),
        x(dy + shape.out_height() * shape.out_width() * width),
        x_floats(padded ? (part.in_end - part.in_begin) * planes.stride : 0),
        offset(x + x_floats),
        floats(offset + round_up(depth, kLanes)) {}

  int64_t panel;
  int64_t width;
  int64_t depth;
  bool padded;
  Planes planes;
  int64_t dw;
  int64_t dbias;
  int64_t dy;
  int64_t x;
  int64_t x_floats;
  int64_t offset;
  int64_t floats;
};

}  // namespace

int64_t conv_weights_scratch_floats(const ConvShape& shape, const ConvPart& part) {
  return Layout(shape, part).floats;
}

void conv_weights_avx512(const ConvShape& shape, const ConvPart& part, int64_t images,
                         const float* x, const float* dy, float* dw, float* dbias, float* scratch) {
  const Layout layout(shape, part);
  const int64_t channels = part.in_end - part.in_begin;
  const int64_t in_plane = shape.height * shape.width;
  const int64_t out_height = shape.out_height();
  const int64_t out_width = shape.out_width();
  const int64_t out_plane = out_height * out_width;
  const int64_t row_stride = layout.padded ? layout.planes.row_stride : shape.width;
  auto* const offset = reinterpret_cast<int32_t*>(scratch + layout.offset);
  fill_offsets(shape, channels, layout.padded ? layout.planes.stride : in_plane, row_stride,
               offset);
  std::memset(scratch + layout.x, 0, static_cast<size_t>(layout.x_floats) * sizeof(float));

  const int64_t vectors = layout.width / kLanes;
  const Parts tiles(layout.depth, tile_rows(vectors));
  const Parts blocks(out_height, std::max<int64_t>(1, kBlockPositions / out_width));
  const bool sum_bias = dbias != nullptr && part.in_begin == 0;
  for (int64_t image = 0; image < images; ++image) {
    transpose<true>(dy + (image * shape.out_channels + part.out_begin) * out_plane, out_plane,
                    layout.panel, out_plane, scratch + layout.dy, layout.width);
    if (sum_bias) {
      add_columns(scratch + layout.dy, out_plane, layout.width, image > 0, scratch + layout.dbias);
    }
    const float* planes = x + (image * shape.in_channels + part.in_begin) * in_plane;
    if (layout.padded) {
      layout.planes.copy(planes, channels, scratch + layout.x);
      planes = scratch + layout.x;
    }
    for (int64_t block = 0; block < blocks.count; ++block) {
      const int64_t row = blocks.begin(block);
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t begin = tiles.begin(t);
        kTileTable[vectors - 1][tiles.end(t) - begin - 1](
            blocks.end(block) - row, out_width, planes + row * row_stride, row_stride,
            offset + begin, scratch + layout.dy + row * out_width * layout.width,
            scratch + layout.dw + begin * layout.width, image > 0 || block > 0);
      }
    }
  }
  transpose<false>(scratch + layout.dw, layout.width, layout.depth, layout.panel,
                   dw + part.out_begin * shape.depth() + part.in_begin * shape.taps(),
                   shape.depth());
  if (sum_bias) {
    std::memcpy(dbias + part.out_begin, scratch + layout.dbias,
                static_cast<size_t>(layout.panel) * sizeof(float));
  }
}

}  // namespace strata::kernels
