// Single-precision matrix products for processors with AVX-512, where MKL takes its AVX2 path (it
// does on AMD's). Blocking as in Goto & van de Geijn 2008; two things are made for training steps:
// the small batch side is the one that is packed and laid along the vectors, so that a layer's
// weights are read once and in place, and each element is summed in an order that only k decides.
#include <immintrin.h>

#include <algorithm>

#include "kernels/matmul_kernels.h"
#include "kernels/panels_avx512.h"
#include "kernels/transpose_avx512.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMaxRows = 12;  // rows of the tallest tile
/// Rows that pass over a packed panel; a multiple of every tile's height.
constexpr int64_t kBlockRows = 96;
/// Columns that are packed at a time.
constexpr int64_t kMaxGroup = 4 * kPanel;
/// Matrices from this size on are fetched ahead.
constexpr int64_t kStreamedFloats = 1 << 17;

/// Of so many columns those that are packed next.
constexpr int64_t group_columns(int64_t columns) {
  const bool little_left = columns > kMaxGroup && columns <= kMaxGroup + 2 * kLanes;
  return little_left ? kMaxGroup - 3 * kLanes : std::min(columns, kMaxGroup);
}

/// d[rows, columns] = p q; vectors lie along the columns.
struct Product {
  int64_t rows;
  int64_t columns;
  int64_t k;
  MatrixView p;
  MatrixView q;
  const float* bias;  // along the columns, or null
  float* d;
  int64_t d_stride;
  const float* row_bias = nullptr;
  bool add = false;
};

/// Packs p[rows, k], whose rows lie side by side, as tiles of `height` rows: [tile][k][height].
void pack_rows(const MatrixView& p, int64_t rows, int64_t k, int64_t height, float* out) {
  for (int64_t row = 0; row < rows; row += height) {
    const int64_t tall = std::min(height, rows - row);
    const __mmask16 mask = lanes(tall);
    const float* from = p.data + row;
    // A store writes 16 floats; the next one overwrites those behind the tile.
    for (int64_t i = 0; i < k; ++i, from += p.column_stride, out += tall) {
      _mm512_storeu_ps(out, _mm512_maskz_loadu_ps(mask, from));
    }
  }
}

/// Memory that is needed next, fetched while a tile is computed: 64 bytes of each of `rows` rows
/// for every 16 steps of k. The processor's own prefetchers do not follow short rows that are far
/// apart.
struct PrefetchHint {
  const float* data = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
};

/// One tile: d[kRows, kVectors * 16] (+)= p[kRows, k] q[k, kVectors * 16] (+ bias), q packed.
template <int kRows, int kVectors, bool kPacked>
void tile(int64_t k, const float* p, int64_t p_stride, const float* q, float* d, int64_t d_stride,
          __mmask16 last, bool add, const float* bias, const float* row_bias,
          const PrefetchHint& ahead) {
  const float* next = ahead.data;
  const int64_t next_stride = ahead.stride;
  const int64_t next_rows = ahead.rows;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (int64_t begin = 0; begin < k; begin += kLanes) {
    for (int64_t r = 0; r < next_rows; ++r) __builtin_prefetch(next + r * next_stride);
    next += kLanes;
    const int64_t end = begin + kLanes < k ? begin + kLanes : k;
    for (int64_t i = begin; i < end; ++i) {
      __m512 b[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) b[v] = _mm512_load_ps(q + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m512 a = _mm512_set1_ps(kPacked ? p[r] : p[r * p_stride]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(a, b[v], sum[r][v]);
      }
      q += kVectors * kLanes;
      p += kPacked ? kRows : 1;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* at = d + r * d_stride + v * kLanes;
      const __mmask16 mask = v + 1 == kVectors ? last : 0xffff;
      __m512 value = sum[r][v];
      if (add) value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, at), value);
      if (bias != nullptr)
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, bias + v * kLanes));
      if (row_bias != nullptr) value = _mm512_add_ps(value, _mm512_set1_ps(row_bias[r]));
      _mm512_mask_storeu_ps(at, mask, value);
    }
  }
}

using Tile = void (*)(int64_t, const float*, int64_t, const float*, float*, int64_t, __mmask16,
                      bool, const float*, const float*, const PrefetchHint&);

template <int kVectors, bool kPacked>
constexpr Tile kTiles[kMaxRows] = {
    tile<1, kVectors, kPacked>,
    tile<2, kVectors, kPacked>,
    tile<3, kVectors, kPacked>,
    tile<4, kVectors, kPacked>,
    tile<5, kVectors, kPacked>,
    tile<6, kVectors, kPacked>,
    kVectors <= 3 ? tile<kVectors <= 3 ? 7 : 1, kVectors, kPacked> : nullptr,
    kVectors <= 3 ? tile<kVectors <= 3 ? 8 : 1, kVectors, kPacked> : nullptr,
    kVectors <= 2 ? tile<kVectors <= 2 ? 9 : 1, kVectors, kPacked> : nullptr,
    kVectors <= 2 ? tile<kVectors <= 2 ? 10 : 1, kVectors, kPacked> : nullptr,
    kVectors <= 2 ? tile<kVectors <= 2 ? 11 : 1, kVectors, kPacked> : nullptr,
    kVectors <= 2 ? tile<kVectors <= 2 ? 12 : 1, kVectors, kPacked> : nullptr,
};

/// [packed][vectors - 1][rows - 1]
constexpr const Tile* kTileTable[2][4] = {
    {kTiles<1, false>, kTiles<2, false>, kTiles<3, false>, kTiles<4, false>},
    {kTiles<1, true>, kTiles<2, true>, kTiles<3, true>, kTiles<4, true>},
};

/// Rows of a tile that is `vectors` wide: as many sums as the registers hold.
constexpr int64_t tile_rows(int64_t vectors) { return vectors == 4 ? 6 : vectors == 3 ? 8 : 12; }

/// Scratch memory: a group of packed panels of q, then all packed rows of p.
int64_t packed_q_floats(const Product& product) {
  return round_up(block_k(product.k) * std::min(round_up(product.columns, kLanes), kMaxGroup),
                  kLanes);
}

int64_t scratch_floats(const Product& product) {
  const bool pack_p = product.p.column_stride != 1;
  return packed_q_floats(product) +
         (pack_p ? round_up(product.rows * block_k(product.k) + kLanes, kLanes) : 0);
}

/// Which matrix does not fit the second-level cache and is walked in short rows.
enum class Streamed { kNone, kP, kQ, kD };

Streamed streamed(const Product& product) {
  const int64_t p = product.rows * product.k;
  const int64_t q = product.k * product.columns;
  const int64_t d = product.rows * product.columns;
  if (std::max({p, q, d}) < kStreamedFloats) return Streamed::kNone;
  if (d >= p && d >= q) return Streamed::kD;
  if (p >= q) return product.p.column_stride == 1 ? Streamed::kP : Streamed::kNone;
  return product.q.column_stride == 1 ? Streamed::kQ : Streamed::kNone;
}

void multiply(const Product& product, float* scratch) {
  const int64_t depth = block_k(product.k);
  float* const packed_q = scratch;
  float* const packed_p = scratch + packed_q_floats(product);
  const bool pack_p = product.p.column_stride != 1;
  const int64_t packed_height =
      tile_rows(std::min(kPanel, round_up(product.columns, kLanes)) / kLanes);
  const Streamed stream = streamed(product);
  for (int64_t k0 = 0; k0 < product.k; k0 += depth) {
    const int64_t k = std::min(depth, product.k - k0);
    const bool last_k = k0 + k == product.k;
    const float* const bias = last_k ? product.bias : nullptr;
    const float* const row_bias = last_k ? product.row_bias : nullptr;
    const MatrixView p{product.p.data + k0 * product.p.column_stride, product.p.row_stride,
                       product.p.column_stride};
    if (pack_p) pack_rows(p, product.rows, k, packed_height, packed_p);
    for (int64_t group = 0, group_end = 0; group < product.columns; group = group_end) {
      group_end = group + group_columns(product.columns - group);
      const float* const q_block =
          product.q.data + k0 * product.q.row_stride + group * product.q.column_stride;
      pack_panels({q_block, product.q.row_stride, product.q.column_stride}, k, group_end - group,
                  packed_q);
      PrefetchHint ahead;
      if (stream == Streamed::kQ) {
        // The tiles of this block fetch the next block of q between them.
        const bool last_group = group_end == product.columns;
        const int64_t tiles = (group_end - group + kPanel - 1) / kPanel * ((product.rows + 5) / 6);
        ahead = {last_group ? product.q.data + (k0 + depth) * product.q.row_stride
                            : q_block + (group_end - group),
                 product.q.row_stride, (depth + tiles - 1) / tiles};
      }
      for (int64_t row0 = 0; row0 < product.rows; row0 += kBlockRows) {
        const int64_t row_end = std::min(product.rows, row0 + kBlockRows);
        for (int64_t column = group, columns = 0; column < group_end; column += columns) {
          columns = panel_columns(group_end - column);
          const int64_t vectors = (columns + kLanes - 1) / kLanes;
          const int64_t height = pack_p ? packed_height : tile_rows(vectors);
          const __mmask16 last = lanes(columns - (vectors - 1) * kLanes);
          const float* const q = packed_q + (column - group) * k;
          for (int64_t row = row0; row < row_end; row += height) {
            const int64_t tall = std::min(height, row_end - row);
            float* const d = product.d + row * product.d_stride + column;
            const float* const from = pack_p ? packed_p + row * k : p.data + row * p.row_stride;
            if (stream == Streamed::kP) {
              ahead = {from + height * p.row_stride, p.row_stride, height};
            } else if (stream == Streamed::kD) {
              ahead = {d + height * product.d_stride, product.d_stride, height};
            }
            kTileTable[pack_p][vectors - 1][tall - 1](
                k, from, p.row_stride, q, d, product.d_stride, last, product.add || k0 > 0,
                bias != nullptr ? bias + column : nullptr,
                row_bias != nullptr ? row_bias + row : nullptr, ahead);
            if (stream == Streamed::kQ) ahead.data += ahead.rows * ahead.stride;
          }
        }
      }
    }
  }
}

/// The product that is computed for `problem`, its result as it is or transposed.
Product product_of(const MatmulProblem& problem, bool transposed) {
  if (!transposed) {
    return {.rows = problem.m,
            .columns = problem.n,
            .k = problem.k,
            .p = problem.a,
            .q = problem.b,
            .bias = problem.bias,
            .d = problem.c,
            .d_stride = problem.c_stride,
            .row_bias = problem.row_bias,
            .add = problem.add};
  }
  return {.rows = problem.n,
          .columns = problem.m,
          .k = problem.k,
          .p = {problem.b.data, problem.b.column_stride, problem.b.row_stride},
          .q = {problem.a.data, problem.a.column_stride, problem.a.row_stride},
          .bias = nullptr,
          .d = nullptr,
          .d_stride = round_up(problem.m, kLanes)};
}

/// Whether to compute the transposed product: then a is packed along the vectors, b is read in
/// place, and the result is transposed at the end. Only where b would have to be transposed
/// otherwise, and is larger.
bool transposed(const MatmulProblem& problem) {
  const bool b_by_columns = problem.b.column_stride != 1;
  return b_by_columns && problem.b.row_stride == 1 && problem.row_bias == nullptr && !problem.add &&
         problem.m * (problem.k + problem.n) < problem.n * problem.k;
}

}  // namespace

int64_t matmul_scratch_floats(const MatmulProblem& problem) {
  if (!transposed(problem)) return scratch_floats(product_of(problem, false));
  const Product product = product_of(problem, true);
  return scratch_floats(product) + product.rows * product.d_stride;
}

void matmul_avx512(const MatmulProblem& problem, float* scratch) {
  if (!transposed(problem)) {
    multiply(product_of(problem, false), scratch);
    return;
  }
  Product product = product_of(problem, true);
  product.d = scratch + scratch_floats(product);
  multiply(product, scratch);
  transpose<false>(product.d, product.d_stride, problem.n, problem.m, problem.c, problem.c_stride,
                   problem.bias);
}

}  // namespace strata::kernels
