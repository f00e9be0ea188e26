// The gradient of the weights of a 3 x 3 convolution by Winograd's minimal filtering, the transpose
// of conv_winograd_forward_avx512.cc:
//
//   dg = G^T [sum over tiles and images of (A dY A^T) . (B^T d B)] G
//
// The sums are 16 matrix products [input channels, tiles] x [tiles, output channels], vectors along
// the output channels.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/conv_kernels.h"
#include "kernels/conv_winograd_avx512.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMaxRows = 12;

/// Input channels of a product that is `vectors` wide.
constexpr int64_t tile_rows(int64_t vectors) { return vectors == 4 ? 6 : vectors == 3 ? 8 : 12; }

/// sums[kRows, kVectors * 16] += x[kRows][kBlock] dy[tiles][kVectors * 16]
template <int kRows, int kVectors>
void product(int64_t tiles, const float* x, const float* dy, float* sums) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < tiles; ++i, ++x, dy += kVectors * kLanes) {
    __m512 b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] = _mm512_load_ps(dy + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 a = _mm512_set1_ps(x[r * kBlock]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(a, b[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v, sums += kLanes)
      _mm512_store_ps(sums, _mm512_add_ps(_mm512_load_ps(sums), sum[r][v]));
  }
}

using Product = void (*)(int64_t, const float*, const float*, float*);

template <int kVectors>
constexpr Product kProducts[kMaxRows] = {
    product<1, kVectors>,
    product<2, kVectors>,
    product<3, kVectors>,
    product<4, kVectors>,
    product<5, kVectors>,
    product<6, kVectors>,
    kVectors <= 3 ? product<kVectors <= 3 ? 7 : 1, kVectors> : nullptr,
    kVectors <= 3 ? product<kVectors <= 3 ? 8 : 1, kVectors> : nullptr,
    kVectors <= 2 ? product<kVectors <= 2 ? 9 : 1, kVectors> : nullptr,
    kVectors <= 2 ? product<kVectors <= 2 ? 10 : 1, kVectors> : nullptr,
    kVectors <= 2 ? product<kVectors <= 2 ? 11 : 1, kVectors> : nullptr,
    kVectors <= 2 ? product<kVectors <= 2 ? 12 : 1, kVectors> : nullptr,
};

/// [vectors - 1][rows - 1]
constexpr const Product* kProductTable[4] = {kProducts<1>, kProducts<2>, kProducts<3>,
                                             kProducts<4>};

/// out[point] = (A dY A^T)[point] for `width` output channels of one tile, but for the sign of the
/// last row and of the last column. `right` and `below` are whether the tile has these outputs.
void transform_gradients(const float* dy, int64_t row_stride, bool right, bool below, int64_t width,
                         float* out, int64_t stride) {
  for (int64_t v = 0; v < width; v += kLanes) {
    const __m512 zero = _mm512_setzero_ps();
    const __m512 a = _mm512_load_ps(dy + v);
    const __m512 b = right ? _mm512_load_ps(dy + width + v) : zero;
    const __m512 c = below ? _mm512_load_ps(dy + row_stride + v) : zero;
    const __m512 d = right && below ? _mm512_load_ps(dy + row_stride + width + v) : zero;
    const __m512 rows[4][2] = {{a, b},
                               {_mm512_add_ps(a, c), _mm512_add_ps(b, d)},
                               {_mm512_sub_ps(a, c), _mm512_sub_ps(b, d)},
                               {c, d}};
    float* to = out + v;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i, to += 4 * stride) {
      _mm512_store_ps(to, rows[i][0]);
      _mm512_store_ps(to + stride, _mm512_add_ps(rows[i][0], rows[i][1]));
      _mm512_store_ps(to + 2 * stride, _mm512_sub_ps(rows[i][0], rows[i][1]));
      _mm512_store_ps(to + 3 * stride, rows[i][1]);
    }
  }
}

/// One dimension of G^T m G, the sign of the last element of m turned.
inline __attribute__((always_inline)) void fold(const __m512 (&m)[4], __m512 (&out)[3]) {
  const __m512 half = _mm512_set1_ps(0.5f);
  const __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(m[1], m[2]));
  out[0] = _mm512_add_ps(m[0], sum);
  out[1] = _mm512_mul_ps(half, _mm512_sub_ps(m[1], m[2]));
  out[2] = _mm512_sub_ps(sum, m[3]);
}

/// dw[tap * width] = (G^T m G)[tap] for 16 output channels.
void transform_sums(const float* m, int64_t stride, float* dw, int64_t width) {
  __m512 rows[3][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 column[4] = {_mm512_load_ps(m + j * stride), _mm512_load_ps(m + (4 + j) * stride),
                              _mm512_load_ps(m + (8 + j) * stride),
                              _mm512_load_ps(m + (12 + j) * stride)};
    __m512 folded[3];
    fold(column, folded);
    for (int i = 0; i < 3; ++i) rows[i][j] = folded[i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    __m512 folded[3];
    fold(rows[i], folded);
    for (int j = 0; j < 3; ++j) _mm512_store_ps(dw + (3 * i + j) * width, folded[j]);
  }
}

/// Scratch memory of a part, in this order.
struct Layout {
  Layout(const ConvShape& shape, const ConvPart& part)
      : channels(part.in_end - part.in_begin),
        panel(std::min(kConvPanel, shape.out_channels - part.out_begin)),
        width(round_up(panel, kLanes)),
        tiling(shape, channels),
        sum_stride(point_stride(channels * width)),
        gradient_stride(point_stride(kBlock * width)),
        sums(0),
        x(sums + kPoints * sum_stride),
        gradients(x + tiling.block_floats()),
        dbias(gradients + kPoints * gradient_stride),
        dy(dbias + width),
        dw(dy + shape.out_height() * shape.out_width() * width),
        planes(dw + channels * shape.taps() * width),
        floats(planes + tiling.planes_floats()) {}

  int64_t channels;
  int64_t panel;
  int64_t width;
  Tiling tiling;
  int64_t sum_stride;
  int64_t gradient_stride;
  int64_t sums;       // [point][channel][width]
  int64_t x;          // [point][channel][kBlock]
  int64_t gradients;  // [point][kBlock][width]
  int64_t dbias;
  int64_t dy;  // [position][width]
  int64_t dw;  // [channel][tap][width]
  int64_t planes;
  int64_t floats;
};

/// Adds the products of a block of transformed tiles.
void add_block(const Layout& layout, int64_t tiles, PrefetchHint (&ahead)[2], float* scratch) {
  const int64_t vectors = layout.width / kLanes;
  const Parts parts(layout.channels, tile_rows(vectors));
  for (int64_t point = 0; point < kPoints; ++point) {
    for (PrefetchHint& next : ahead) next.fetch();
    const float* const x = scratch + layout.x + point * layout.tiling.stride;
    const float* const gradients = scratch + layout.gradients + point * layout.gradient_stride;
    float* const sums = scratch + layout.sums + point * layout.sum_stride;
    for (int64_t part = 0; part < parts.count; ++part) {
      const int64_t row = parts.begin(part);
      kProductTable[vectors - 1][parts.end(part) - row - 1](tiles, x + row * kBlock, gradients,
                                                            sums + row * layout.width);
    }
  }
}

}  // namespace

int64_t winograd_weights_scratch_floats(const ConvShape& shape, const ConvPart& part) {
  return Layout(shape, part).floats;
}

void winograd_weights_avx512(const ConvShape& shape, const ConvPart& part, int64_t images,
                             const float* x, const float* dy, float* dw, float* dbias,
                             float* scratch) {
  const Layout layout(shape, part);
  const Tiling& tiling = layout.tiling;
  const int64_t width = layout.width;
  const int64_t in_plane = shape.height * shape.width;
  const int64_t out_width = shape.out_width();
  const int64_t out_plane = shape.out_height() * out_width;
  float* const planes = scratch + layout.planes;
  float* const image_dy = scratch + layout.dy;
  const bool sum_bias = dbias != nullptr && part.in_begin == 0;
  std::memset(planes, 0, static_cast<size_t>(tiling.planes_floats()) * sizeof(float));
  std::memset(scratch, 0, static_cast<size_t>(layout.x) * sizeof(float));

  // An image is fetched while the one before is computed.
  const int64_t fetches = std::max<int64_t>(1, tiling.tiles() / kBlock) * kPoints;
  PrefetchHint ahead[2];
  int64_t filled = 0;  // tiles of the block
  for (int64_t image = 0; image < images; ++image) {
    const float* const image_x = x + (image * shape.in_channels + part.in_begin) * in_plane;
    const float* const all_dy = dy + (image * shape.out_channels + part.out_begin) * out_plane;
    tiling.planes.copy(image_x, layout.channels, planes);
    transpose<true>(all_dy, out_plane, layout.panel, out_plane, image_dy, width);
    if (sum_bias) add_columns(image_dy, out_plane, width, image > 0, scratch + layout.dbias);
    if (image + 1 < images) {
      ahead[0].start(image_x + shape.in_channels * in_plane, layout.channels * in_plane, fetches);
      ahead[1].start(all_dy + shape.out_channels * out_plane, layout.panel * out_plane, fetches);
    }
    for (int64_t begin = 0; begin < tiling.tiles();) {
      const int64_t end = std::min(tiling.tiles(), begin + kBlock - filled);
      tiling.transform(planes, begin, end, scratch + layout.x, filled);
      for (; begin < end; ++begin, ++filled) {
        const int64_t row = 2 * (begin / tiling.columns);
        const int64_t column = 2 * (begin % tiling.columns);
        transform_gradients(image_dy + (row * out_width + column) * width, out_width * width,
                            column + 1 < out_width, row + 1 < shape.out_height(), width,
                            scratch + layout.gradients + filled * width, layout.gradient_stride);
      }
      if (filled == kBlock) {
        add_block(layout, filled, ahead, scratch);
        filled = 0;
      }
    }
  }
  if (filled > 0) add_block(layout, filled, ahead, scratch);

  const int64_t taps = shape.taps();
  for (int64_t channel = 0; channel < layout.channels; ++channel) {
    for (int64_t v = 0; v < width; v += kLanes) {
      transform_sums(scratch + layout.sums + channel * width + v, layout.sum_stride,
                     scratch + layout.dw + channel * taps * width + v, width);
    }
  }
  transpose<false>(scratch + layout.dw, width, layout.channels * taps, layout.panel,
                   dw + part.out_begin * shape.depth() + part.in_begin * taps, shape.depth());
  if (sum_bias) {
    std::memcpy(dbias + part.out_begin, scratch + layout.dbias,
                static_cast<size_t>(layout.panel) * sizeof(float));
  }
}

}  // namespace strata::kernels
