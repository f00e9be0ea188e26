// Products of bfloat16 matrices with float sums for processors with AVX512_BF16. The way of
// matmul_kernels.inc, with two steps of k in a lane: one side is packed as panels of pairs
// along the vectors, and the other one's pairs are broadcast, in place where k lies side by side.
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/bf16_matmul_kernels.h"
#include "kernels/bf16_panels.h"
#include "kernels/panels.h"
#include "kernels/transpose.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMaxTall = 12;  // rows of the tallest tile
/// A panel of so many pairs takes half of a second-level cache.
constexpr int64_t kMaxPairs = 2048;

/// d[rows, columns] = p q; vectors lie along the columns.
struct Bf16Product {
  int64_t rows;
  int64_t columns;
  int64_t k;
  Bf16View p;
  Bf16View q;
  const float* bias;  // along the columns, or null
  uint16_t* d;
  float* d_float;
  int64_t d_stride;
};

/// Packs p[rows, k], whose rows lie side by side, as tiles of `height` rows: [tile][pair][height].
void pack_tall(const Bf16View& p, int64_t rows, int64_t k, int64_t height, uint32_t* out) {
  for (int64_t row = 0; row < rows; row += height) {
    const int64_t tall = std::min(height, rows - row);
    const uint16_t* from = p.data + row;
    // A store writes 16 pairs; the next one overwrites those behind the tile.
    for (int64_t i = 0; i < k; i += 2, from += 2 * p.column_stride, out += tall) {
      _mm512_storeu_si512(out, load_pairs(from, p.column_stride, i + 1 < k, lanes(tall)));
    }
  }
}

/// Where a tile's sums are written.
struct Target {
  uint16_t* d;
  float* d_float;
  int64_t stride;
  __mmask16 last;
  bool add;           // to what d_float holds
  const float* bias;  // or null
};

template <bool kWhole>
inline __attribute__((always_inline)) __m512bh broadcast_pair(const void* at) {
  if constexpr (kWhole) {
    int32_t pair;
    std::memcpy(&pair, at, sizeof(pair));
    return (__m512bh)_mm512_set1_epi32(pair);
  } else {
    uint16_t one;
    std::memcpy(&one, at, sizeof(one));
    return (__m512bh)_mm512_set1_epi32(one);
  }
}

/// One tile: d[kRows, kVectors * 16] = p[kRows, k] q[k, kVectors * 16], q packed. `p_stride` is in
/// elements of two bytes.
template <int kRows, int kVectors, bool kPacked>
void tile(int64_t k, const uint16_t* p, int64_t p_stride, const uint32_t* q, const Target& target) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  const auto step = [&](auto whole) __attribute__((always_inline)) {
    __m512bh b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] = (__m512bh)_mm512_load_si512(q + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512bh a =
          broadcast_pair<decltype(whole)::value>(kPacked ? p + 2 * r : p + r * p_stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], a, b[v]);
    }
    q += kVectors * kLanes;
    p += kPacked ? 2 * kRows : 2;
  };
  // Packed rows have a zero behind the last of an odd number.
  const int64_t pairs = kPacked ? (k + 1) / 2 : k / 2;
  for (int64_t i = 0; i < pairs; ++i) step(std::true_type());
  if (!kPacked && k % 2 != 0) step(std::false_type());
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = r * target.stride + v * kLanes;
      const __mmask16 mask = v + 1 == kVectors ? target.last : 0xffff;
      __m512 value = sum[r][v];
      if (target.add)
        value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, target.d_float + at), value);
      if (target.bias != nullptr)
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, target.bias + v * kLanes));
      if (target.d != nullptr) {
        _mm256_mask_storeu_epi16(target.d + at, mask, (__m256i)_mm512_cvtneps_pbh(value));
      } else {
        _mm512_mask_storeu_ps(target.d_float + at, mask, value);
      }
    }
  }
}

using Tile = void (*)(int64_t, const uint16_t*, int64_t, const uint32_t*, const Target&);

template <int kVectors, bool kPacked>
constexpr Tile kTiles[kMaxTall] = {
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

/// Pairs that are summed before the sums are written.
constexpr int64_t block_pairs(int64_t k) { return std::min((k + 1) / 2, kMaxPairs); }

bool packs_p(const Bf16Product& product) { return product.p.column_stride != 1; }

/// Scratch memory: a packed panel of q, all packed rows of p, then sums of several blocks of k.
int64_t panel_words(const Bf16Product& product) {
  return block_pairs(product.k) * std::min(round_up(product.columns, kLanes), kPanel);
}
int64_t packed_words(const Bf16Product& product) {
  if (!packs_p(product)) return 0;
  return round_up(product.rows * block_pairs(product.k) + kLanes, kLanes);
}
bool sums_apart(const Bf16Product& product) {
  return product.d != nullptr && (product.k + 1) / 2 > kMaxPairs;
}
int64_t scratch_words(const Bf16Product& product) {
  return panel_words(product) + packed_words(product) +
         (sums_apart(product) ? round_up(product.rows * product.columns, kLanes) : 0);
}

void multiply(Bf16Product product, float* scratch) {
  auto* const panel = reinterpret_cast<uint32_t*>(scratch);
  uint32_t* const packed = panel + panel_words(product);
  uint16_t* const rounded = product.d;
  const int64_t rounded_stride = product.d_stride;
  const bool apart = sums_apart(product);
  if (apart) {
    product.d = nullptr;
    product.d_float = scratch + panel_words(product) + packed_words(product);
    product.d_stride = product.columns;
  }
  const bool pack_p = packs_p(product);
  const int64_t packed_height =
      tile_rows(std::min(kPanel, round_up(product.columns, kLanes)) / kLanes);
  for (int64_t k0 = 0; k0 < product.k; k0 += 2 * kMaxPairs) {
    const int64_t k = std::min(2 * kMaxPairs, product.k - k0);
    const int64_t pairs = (k + 1) / 2;
    const bool last_k = k0 + k == product.k;
    const Bf16View p{product.p.data + k0 * product.p.column_stride, product.p.row_stride,
                     product.p.column_stride};
    if (pack_p) pack_tall(p, product.rows, k, packed_height, packed);
    for (int64_t column = 0, columns = 0; column < product.columns; column += columns) {
      columns = panel_columns(product.columns - column);
      const int64_t vectors = (columns + kLanes - 1) / kLanes;
      const Bf16View q{
          product.q.data + k0 * product.q.row_stride + column * product.q.column_stride,
          product.q.row_stride, product.q.column_stride};
      (q.column_stride == 1 ? pack_side_by_side : pack_by_columns)(q, k, columns, vectors * kLanes,
                                                                   panel);
      const int64_t height = pack_p ? packed_height : tile_rows(vectors);
      for (int64_t row = 0; row < product.rows; row += height) {
        const int64_t tall = std::min(height, product.rows - row);
        const int64_t at = row * product.d_stride + column;
        const Target target{
            .d = product.d != nullptr ? product.d + at : nullptr,
            .d_float = product.d_float != nullptr ? product.d_float + at : nullptr,
            .stride = product.d_stride,
            .last = lanes(columns - (vectors - 1) * kLanes),
            .add = k0 > 0,
            .bias = last_k && product.bias != nullptr ? product.bias + column : nullptr};
        const uint16_t* const from = pack_p
                                         ? reinterpret_cast<const uint16_t*>(packed + row * pairs)
                                         : p.data + row * p.row_stride;
        kTileTable[pack_p][vectors - 1][tall - 1](k, from, p.row_stride, panel, target);
      }
    }
  }
  if (apart) {
    round_rows(product.d_float, product.d_stride, product.rows, product.columns, rounded,
               rounded_stride);
  }
}

Bf16Product product_of(const Bf16Problem& problem, bool transposed) {
  if (!transposed) {
    return {.rows = problem.m,
            .columns = problem.n,
            .k = problem.k,
            .p = problem.a,
            .q = problem.b,
            .bias = problem.bias,
            .d = problem.c,
            .d_float = problem.c_float,
            .d_stride = problem.c_stride};
  }
  return {.rows = problem.n,
          .columns = problem.m,
          .k = problem.k,
          .p = {problem.b.data, problem.b.column_stride, problem.b.row_stride},
          .q = {problem.a.data, problem.a.column_stride, problem.a.row_stride},
          .bias = nullptr,
          .d = nullptr,
          .d_float = nullptr,
          .d_stride = round_up(problem.m, kLanes)};
}

/// Whether to compute the transposed product: then b is read in place, and the result is transposed
/// at the end. Only where b would have to be transposed otherwise, and is larger.
bool transposed(const Bf16Problem& problem) {
  return problem.b.column_stride != 1 && problem.b.row_stride == 1 &&
         problem.m * (problem.k + 2 * problem.n) < problem.n * problem.k;
}

/// Columns of the result that are transposed before they are rounded.
constexpr int64_t kRoundedRows = 16;

}  // namespace

int64_t bf16_scratch_floats(const Bf16Problem& problem) {
  if (!transposed(problem)) return scratch_words(product_of(problem, false));
  const Bf16Product product = product_of(problem, true);
  return scratch_words(product) + product.rows * product.d_stride +
         kRoundedRows * round_up(problem.n, kLanes);
}

void bf16_matmul_avx512(const Bf16Problem& problem, float* scratch) {
  if (!transposed(problem)) {
    multiply(product_of(problem, false), scratch);
    return;
  }
  Bf16Product product = product_of(problem, true);
  product.d_float = scratch + scratch_words(product);
  multiply(product, scratch);
  if (problem.c == nullptr) {
    transpose<false>(product.d_float, product.d_stride, problem.n, problem.m, problem.c_float,
                     problem.c_stride, problem.bias);
    return;
  }
  float* const rows = product.d_float + product.rows * product.d_stride;
  const int64_t stride = round_up(problem.n, kLanes);
  for (int64_t row = 0; row < problem.m; row += kRoundedRows) {
    const int64_t count = std::min(kRoundedRows, problem.m - row);
    transpose<false>(product.d_float + row, product.d_stride, problem.n, count, rows, stride,
                     problem.bias);
    round_rows(rows, stride, count, problem.n, problem.c + row * problem.c_stride,
               problem.c_stride);
  }
}

}  // namespace strata::kernels
