// 3 x 3 convolutions by Winograd's minimal filtering F(2 x 2, 3 x 3) (Lavin & Gray 2015): 2 x 2
// outputs take 16 multiplications per input channel instead of 36.
//
//   Y = A^T [sum over channels of (G g G^T) . (B^T d B)] A
//
// The sums are 16 matrix products, one for each point of a transformed tile.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/conv_kernels.h"
#include "kernels/conv_winograd_avx512.h"

namespace strata::kernels {
namespace {

constexpr int64_t kTileRows = 6;     // output channels
constexpr int64_t kTileVectors = 4;  // of tiles
constexpr int64_t kSumStride = point_stride(kTileRows * kBlock);

/// sums[kRows][kBlock] = u[channels][kRows] x[channels][kBlock], for kVectors * 16 tiles.
template <int kRows, int kVectors>
void product(int64_t channels, const float* u, const float* x, float* sums) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < channels; ++i, u += kRows, x += kBlock) {
    __m512 b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] = _mm512_load_ps(x + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 a = _mm512_set1_ps(u[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(a, b[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(sums + r * kBlock + v * kLanes, sum[r][v]);
  }
}

using Product = void (*)(int64_t, const float*, const float*, float*);

template <int kVectors>
constexpr Product kProducts[kTileRows] = {product<1, kVectors>, product<2, kVectors>,
                                          product<3, kVectors>, product<4, kVectors>,
                                          product<5, kVectors>, product<6, kVectors>};

/// [vectors - 1][rows - 1]
constexpr const Product* kProductTable[kTileVectors] = {kProducts<1>, kProducts<2>, kProducts<3>,
                                                        kProducts<4>};

/// The outputs of tiles side by side among the 16 of a vector.
struct Run {
  int64_t position;  // in y, of the vector's first column if the run went back so far
  uint32_t columns;  // of the vector's 32: those that are outputs of this run
  bool second_row;
};

/// Runs of a block of tiles, vector by vector.
struct Runs {
  Run runs[kBlock];
  int64_t begin[kTileVectors + 1];
  /// The part of a plane that holds the outputs of the block's first image.
  int64_t span_begin;
  int64_t span_end;
};

void find_runs(const ConvShape& shape, const Tiling& tiling, int64_t first, int64_t count,
               Runs& found) {
  const int64_t height = shape.out_height();
  const int64_t width = shape.out_width();
  int64_t runs = 0;
  const int64_t image0 = first / tiling.tiles();
  const int64_t tile0 = first - image0 * tiling.tiles();
  const int64_t rows0 =
      std::min(tiling.rows, (tile0 + count + tiling.columns - 1) / tiling.columns);
  const int64_t base = image0 * shape.out_channels * height * width;
  found.span_begin = base + tile0 / tiling.columns * 2 * width;
  found.span_end = base + std::min(2 * rows0, height) * width;
  for (int64_t at = 0; at < count;) {
    if (at % kLanes == 0) found.begin[at / kLanes] = runs;
    const int64_t image = (first + at) / tiling.tiles();
    const int64_t tile = (first + at) % tiling.tiles();
    const int64_t row = tile / tiling.columns;
    const int64_t column = tile % tiling.columns;
    const int64_t lane = at % kLanes;
    const int64_t take = std::min({count - at, tiling.columns - column, kLanes - lane});
    const int64_t outputs = std::min(2 * take, width - 2 * column);
    found.runs[runs++] = {
        image * shape.out_channels * height * width + 2 * row * width + 2 * column - 2 * lane,
        static_cast<uint32_t>(((uint64_t{1} << outputs) - 1) << 2 * lane), 2 * row + 1 < height};
    at += take;
  }
  found.begin[(count + kLanes - 1) / kLanes] = runs;
}

/// Two vectors of 16 floats, alternating.
#define STRATA_ALTERNATE(a, b, s)                                                              \
  __builtin_shufflevector(a, b, s, s + 16, s + 1, s + 17, s + 2, s + 18, s + 3, s + 19, s + 4, \
                          s + 20, s + 5, s + 21, s + 6, s + 22, s + 7, s + 23)

/// A^T m A + bias of 16 tiles, written to their outputs.
inline __attribute__((always_inline)) void transform_outputs(const float* m, __m512 bias,
                                                             const Run* run, const Run* end,
                                                             int64_t width, float* y) {
  __m512 sums[2][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 m0 = _mm512_load_ps(m + j * kSumStride);
    const __m512 m1 = _mm512_load_ps(m + (4 + j) * kSumStride);
    const __m512 m2 = _mm512_load_ps(m + (8 + j) * kSumStride);
    const __m512 m3 = _mm512_load_ps(m + (12 + j) * kSumStride);
    sums[0][j] = _mm512_add_ps(m0, _mm512_add_ps(m1, m2));
    sums[1][j] = _mm512_sub_ps(_mm512_sub_ps(m1, m2), m3);
  }
  __m512 out[2][2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512 even =
        _mm512_add_ps(_mm512_add_ps(sums[i][0], _mm512_add_ps(sums[i][1], sums[i][2])), bias);
    const __m512 odd =
        _mm512_add_ps(_mm512_sub_ps(_mm512_sub_ps(sums[i][1], sums[i][2]), sums[i][3]), bias);
    out[i][0] = STRATA_ALTERNATE(even, odd, 0);
    out[i][1] = STRATA_ALTERNATE(even, odd, 8);
  }
  for (; run < end; ++run) {
    float* const to = y + run->position;
    const auto low = static_cast<__mmask16>(run->columns);
    const auto high = static_cast<__mmask16>(run->columns >> kLanes);
    if (low) _mm512_mask_storeu_ps(to, low, out[0][0]);
    if (high) _mm512_mask_storeu_ps(to + kLanes, high, out[0][1]);
    if (run->second_row) {
      if (low) _mm512_mask_storeu_ps(to + width, low, out[1][0]);
      if (high) _mm512_mask_storeu_ps(to + width + kLanes, high, out[1][1]);
    }
  }
}

#undef STRATA_ALTERNATE

/// u[point] = (G g G^T)[point] of several kernels, one a lane.
inline __attribute__((always_inline)) void transform_kernels(const __m512 (&g)[9],
                                                             __m512 (&u)[kPoints]) {
  const __m512 one_half = _mm512_set1_ps(0.5F);
  __m512 rows[4][3];
#pragma GCC unroll 3
  for (int x = 0; x < 3; ++x) {
    const __m512 sum = _mm512_mul_ps(one_half, _mm512_add_ps(g[x], g[6 + x]));
    const __m512 half = _mm512_mul_ps(one_half, g[3 + x]);
    rows[0][x] = g[x];
    rows[1][x] = _mm512_add_ps(sum, half);
    rows[2][x] = _mm512_sub_ps(sum, half);
    rows[3][x] = g[6 + x];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 sum = _mm512_mul_ps(one_half, _mm512_add_ps(rows[i][0], rows[i][2]));
    const __m512 half = _mm512_mul_ps(one_half, rows[i][1]);
    u[4 * i] = rows[i][0];
    u[4 * i + 1] = _mm512_add_ps(sum, half);
    u[4 * i + 2] = _mm512_sub_ps(sum, half);
    u[4 * i + 3] = rows[i][2];
  }
}

}  // namespace

int64_t winograd_packed_floats(const ConvShape& shape) {
  return kPoints * shape.in_channels * shape.out_channels;
}

namespace {

/// Input channels that are packed together: the points of one kernel lie a power of two apart
/// often, all in the same places of the cache.
constexpr int64_t kTogether = 16;

/// Packs output channels [begin, begin + rows) for some input channels, from `in` on.
void pack_kernels(const ConvShape& shape, const ConvWeights& weights, int64_t begin, int64_t rows,
                  int64_t in, float* packed) {
  alignas(64) float together[kPoints][kTogether * kTileRows + kLanes];
  const __mmask16 mask = lanes(rows);
  const __m512i kernels =
      _mm512_mullo_epi32(_mm512_set1_epi32(static_cast<int>(weights.out_stride)),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const int64_t count = std::min(kTogether, shape.in_channels - in);
  // The processor does not follow so many rows at once.
  const bool short_rows = weights.in_stride > weights.out_stride;
  for (int64_t i = 0; short_rows && i < count; ++i) {
    const float* const row =
        weights.data + begin * weights.out_stride + (in + i) * weights.in_stride;
    for (int64_t at = 0; at < rows * weights.out_stride + kLanes; at += kLanes) {
      __builtin_prefetch(row + at);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const float* const from =
        weights.data + begin * weights.out_stride + (in + i) * weights.in_stride;
    __m512 g[9];
#pragma GCC unroll 9
    for (int tap = 0; tap < 9; ++tap) {
      g[tap] = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, kernels,
                                        from + (weights.flipped ? 8 - tap : tap), 4);
    }
    __m512 u[kPoints];
    transform_kernels(g, u);
#pragma GCC unroll 16
    for (int point = 0; point < kPoints; ++point) {
      _mm512_mask_storeu_ps(together[point] + i * rows, mask, u[point]);
    }
  }
  float* const to = packed + begin * shape.in_channels * kPoints;
  for (int64_t point = 0; point < kPoints; ++point) {
    std::memcpy(to + (point * shape.in_channels + in) * rows, together[point],
                static_cast<size_t>(count * rows) * sizeof(float));
  }
}

}  // namespace

// [tile of output channels][point][input channel][output channel]
void winograd_pack_weights_avx512(const ConvShape& shape, const ConvWeights& weights,
                                  float* packed) {
  const Parts parts(shape.out_channels, kTileRows);
  for (int64_t part = 0; part < parts.count; ++part) {
    const int64_t begin = parts.begin(part);
    for (int64_t in = 0; in < shape.in_channels; in += kTogether) {
      pack_kernels(shape, weights, begin, parts.end(part) - begin, in, packed);
    }
  }
}

int64_t winograd_scratch_floats(const ConvShape& shape) {
  const Tiling tiling(shape, shape.in_channels);
  return tiling.block_floats() + kPoints * kSumStride + tiling.planes_floats();
}

void winograd_avx512(const ConvShape& shape, int64_t images, const float* x, const float* packed,
                     const float* bias, float* y, float* scratch) {
  const Tiling tiling(shape, shape.in_channels);
  const Parts parts(shape.out_channels, kTileRows);
  float* const block = scratch;
  float* const sums = block + tiling.block_floats();
  float* const planes = sums + kPoints * kSumStride;
  std::memset(planes, 0, static_cast<size_t>(tiling.planes_floats()) * sizeof(float));
  const int64_t in_floats = shape.in_channels * shape.height * shape.width;
  const int64_t out_plane = shape.out_height() * shape.out_width();
  const int64_t tiles = images * tiling.tiles();
  // An image is fetched while the one before is computed.
  const int64_t fetches = std::max<int64_t>(1, tiling.tiles() / kBlock) * parts.count;
  PrefetchHint ahead;
  Runs runs;
  for (int64_t first = 0; first < tiles; first += kBlock) {
    const int64_t end = std::min(tiles, first + kBlock);
    for (int64_t tile = first; tile < end;) {
      const int64_t image = tile / tiling.tiles();
      const int64_t in_image = tile % tiling.tiles();
      const int64_t count = std::min(end - tile, tiling.tiles() - in_image);
      if (in_image == 0) {
        tiling.planes.copy(x + image * in_floats, shape.in_channels, planes);
        if (image + 1 < images) ahead.start(x + (image + 1) * in_floats, in_floats, fetches);
      }
      tiling.transform(planes, in_image, in_image + count, block, tile - first);
      tile += count;
    }
    find_runs(shape, tiling, first, end - first, runs);
    const int64_t vectors = (end - first + kLanes - 1) / kLanes;
    for (int64_t part = 0; part < parts.count; ++part) {
      const int64_t row = parts.begin(part);
      const int64_t rows = parts.end(part) - row;
      const Product multiply = kProductTable[vectors - 1][rows - 1];
      const float* u = packed + row * shape.in_channels * kPoints;
      ahead.fetch();
      for (int64_t point = 0; point < kPoints; ++point, u += rows * shape.in_channels) {
        if (point < rows) {
          const float* const plane = y + (row + point) * out_plane;
          for (int64_t i = runs.span_begin; i < runs.span_end; i += kLanes)
            __builtin_prefetch(plane + i, 1);
        }
        multiply(shape.in_channels, u, block + point * tiling.stride, sums + point * kSumStride);
      }
      for (int64_t r = 0; r < rows; ++r) {
        const __m512 start = bias != nullptr ? _mm512_set1_ps(bias[row + r]) : _mm512_setzero_ps();
        for (int64_t v = 0; v < vectors; ++v) {
          transform_outputs(sums + r * kBlock + v * kLanes, start, runs.runs + runs.begin[v],
                            runs.runs + runs.begin[v + 1], shape.out_width(),
                            y + (row + r) * out_plane);
        }
      }
    }
  }
}

}  // namespace strata::kernels
