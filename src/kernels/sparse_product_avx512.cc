// Products with a matrix most of whose elements are zero, as images on a black ground are and
// one-hot rows: zeros are left out, and no bit of the result changes by it. Each row's other
// elements are listed with their places; a row of the product is then a sum of rows of the packed
// side, in vectors.
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/matmul_kernels.h"
#include "kernels/panels_avx512.h"
#include "kernels/transpose_avx512.h"

namespace strata::kernels {
namespace {

/// Smaller products are not worth the look at their elements.
constexpr int64_t kMinMultiplications = 1 << 20;
/// Two panels of so many rows fit the first-level cache: a row of p passes over both at once.
constexpr int64_t kMaxWideK = 80;
/// The lists are that long at most.
constexpr int64_t kMaxElements = 1 << 22;

/// d[rows, columns] = p q, zeros of p left out.
struct Product {
  int64_t rows;
  int64_t columns;
  int64_t k;
  MatrixView p;
  MatrixView q;
};

Product product_of(const MatmulProblem& problem, bool of_b) {
  if (!of_b) return {problem.m, problem.n, problem.k, problem.a, problem.b};
  return {problem.n,
          problem.m,
          problem.k,
          {problem.b.data, problem.b.column_stride, problem.b.row_stride},
          {problem.a.data, problem.a.column_stride, problem.a.row_stride}};
}

int nonzeros(__m512 values, __mmask16* where) {
  // A NaN is not zero.
  *where = _mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  return __builtin_popcount(*where);
}

/// Share of elements that are not zero, guessed from some of them.
double sampled_density(const Product& product) {
  constexpr int64_t kSamples = 32;
  const bool by_rows = product.p.column_stride == 1;
  const int64_t lines = by_rows ? product.rows : product.k;
  const int64_t stride = by_rows ? product.p.row_stride : product.p.column_stride;
  const int64_t chunks = (by_rows ? product.k : product.rows) / kLanes;
  if (chunks == 0) return 1;
  int found = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const int64_t line = i * lines / kSamples;
    const int64_t chunk = i * 7919 % chunks;  // scattered: 7919 is a prime
    __mmask16 where;
    found += nonzeros(_mm512_loadu_ps(product.p.data + line * stride + chunk * kLanes), &where);
  }
  return static_cast<double>(found) / (kSamples * kLanes);
}

/// The density up to which leaving zeros out is faster. Costs are in cycles, measured on Zen 5.
double break_even_density(const Product& product, bool of_b) {
  const auto rows = static_cast<double>(product.rows);
  const auto columns = static_cast<double>(product.columns);
  const auto k = static_cast<double>(product.k);
  // What does not fit a share of the third-level cache comes from memory.
  const bool far = product.k * product.columns > kMaxElements / 4;
  const double pack = k * columns * ((product.q.column_stride == 1 ? 0.1 : 0.3) + (far ? 0.7 : 0));
  const double list = rows * k * (product.p.column_stride == 1 ? 0.15 : 0.3);
  const double transpose = of_b ? rows * columns * 0.3 : 0;
  const double work = rows * columns * k;
  constexpr double kDense = 1. / 30, kSparse = 1. / 17;
  return (work * kDense - pack - list - transpose) / (work * kSparse);
}

/// Scratch memory, each part aligned to 64 bytes.
struct Layout {
  int64_t packed_q, lines, d, ends, values, places, size;

  Layout(const Product& product, const SparsePlan& plan) {
    const int64_t depth = block_k(product.k);
    const int64_t blocks = (product.k + depth - 1) / depth;
    int64_t at = 0;
    const auto next = [&at](int64_t floats) {
      const int64_t here = at;
      at += round_up(floats, kLanes);
      return here;
    };
    packed_q = next(depth * (product.k <= kMaxWideK ? 2 * kPanel : kPanel));
    lines = next(product.p.column_stride == 1 ? 0 : round_up(product.k, kLanes) * kLanes);
    d = next(plan.of_b ? (blocks == 1 ? kLanes : round_up(product.rows, kLanes)) * 2 * kPanel : 0);
    ends = next(blocks * product.rows + 1);
    values = next(plan.capacity + kLanes);
    places = next(plan.capacity / 4 + kLanes);
    size = at;
  }
};

/// Elements of a list are taken four at a time; zeros at place 0 fill it up.
constexpr int64_t kQuad = 4;

/// The elements of p that are not zero, row by row: values, and places within their block of k.
/// What row r has in block b ends at ends[r * blocks + b + 1].
struct Nonzeros {
  float* values;
  uint8_t* places;
  int32_t* ends;
};
static_assert(kMaxBlockK <= 256);

/// Appends a row.
int64_t list_row(const float* row, int64_t k, int64_t at, const Nonzeros& out) {
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int64_t i = 0; i < k; i += kLanes) {
    __builtin_prefetch(row + i + 4 * kAhead);
    __mmask16 where;
    const __m512 values = _mm512_maskz_loadu_ps(lanes(k - i), row + i);
    const int count = nonzeros(values, &where);
    const __m512i places = _mm512_add_epi32(first, _mm512_set1_epi32(static_cast<int>(i)));
    // The next stores overwrite what is behind `count`.
    _mm512_storeu_ps(out.values + at, _mm512_maskz_compress_ps(where, values));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out.places + at),
                     _mm512_cvtepi32_epi8(_mm512_maskz_compress_epi32(where, places)));
    at += count;
  }
  _mm_storeu_ps(out.values + at, _mm_setzero_ps());
  std::memset(out.places + at, 0, kQuad);
  return round_up(at, kQuad);
}

/// False if there are more than `capacity`.
bool list_nonzeros(const Product& product, int64_t capacity, float* lines, const Nonzeros& out) {
  const int64_t depth = block_k(product.k);
  const MatrixView& p = product.p;
  const int64_t stride = round_up(product.k, kLanes);
  const int64_t blocks = (product.k + depth - 1) / depth;
  const int64_t room = product.k + kQuad * blocks;  // for a row
  int64_t at = 0;
  int32_t* end = out.ends;
  *end++ = 0;
  for (int64_t row = 0; row < product.rows; ++row) {
    if (at + room > capacity) return false;
    const float* from = p.data + row * p.row_stride;
    if (p.column_stride != 1) {
      if (row % kLanes == 0) {
        transpose<true>(p.data + row, p.column_stride, product.k,
                        std::min(kLanes, product.rows - row), lines, stride);
      }
      from = lines + row % kLanes * stride;
    }
    for (int64_t k0 = 0; k0 < product.k; k0 += depth) {
      at = list_row(from + k0, std::min(depth, product.k - k0), at, out);
      *end++ = static_cast<int32_t>(at);
    }
  }
  return true;
}

/// Whether no element of a packed panel is an infinity or NaN: zero times those is not zero.
bool all_finite(const float* packed, int64_t floats) {
  __m512 sums[4];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 4 * kLanes <= floats; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      sums[v] =
          _mm512_fmadd_ps(_mm512_load_ps(packed + i + v * kLanes), _mm512_setzero_ps(), sums[v]);
    }
  }
  for (; i < floats; i += kLanes)
    sums[0] = _mm512_fmadd_ps(_mm512_load_ps(packed + i), _mm512_setzero_ps(), sums[0]);
  const __m512 sum =
      _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
  return _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q) == 0;
}

/// What is packed next, fetched into the second-level cache meanwhile.
struct PrefetchHint {
  const float* data = nullptr;
  int64_t stride = 0;
  int64_t lines = 0;  // of `floats` each
  int64_t floats = 0;
  int64_t lines_a_row = 0;  // while a row is summed

  void fetch() {
    for (int64_t i = std::min(lines, lines_a_row); i > 0; --i, --lines, data += stride) {
      for (int64_t f = 0; f < floats; f += kLanes) __builtin_prefetch(data + f, 0, 2);
    }
  }
};

/// Some rows of a block of p times packed panels of q, and where the sums go.
struct Part {
  Nonzeros p;
  int64_t blocks;
  int64_t rows;
  const float* q;
  int64_t next_panel;  // floats from a panel to the next
  float* d;
  int64_t d_stride;
  __mmask16 last;  // lanes of the last vector
  bool add;
  const float* bias;
};

/// Panels before the last one are whole.
template <int kVectors, int kPanels>
void sum_rows(const Part& part, PrefetchHint& ahead) {
  constexpr int kSums = kVectors * kPanels;
  const uint8_t* const places = part.p.places;
  const float* const values = part.p.values;
  const float* const q = part.q;
  const int64_t next_panel = part.next_panel;
  const int32_t* ends = part.p.ends;
  float* d = part.d;
  for (int64_t row = 0; row < part.rows; ++row, ends += part.blocks, d += part.d_stride) {
    ahead.fetch();
    __m512 sum[kSums];
#pragma GCC unroll 8
    for (int v = 0; v < kSums; ++v) sum[v] = _mm512_setzero_ps();
    const int32_t end = ends[1];
    for (int32_t i = ends[0]; i < end; i += kQuad) {
      // What is loaded at once leaves more loads for q.
      const __m512 four = _mm512_broadcast_f32x4(_mm_load_ps(values + i));
      uint32_t four_places;
      std::memcpy(&four_places, places + i, sizeof(four_places));
      const auto add = [&]<int kElement>() __attribute__((always_inline)) {
        const __m512 value = _mm512_permute_ps(four, 0x55 * kElement);
        const float* const from = q + (four_places >> (8 * kElement) & 0xff) * (kVectors * kLanes);
#pragma GCC unroll 8
        for (int v = 0; v < kSums; ++v) {
          const float* const at = from + v / kVectors * next_panel + v % kVectors * kLanes;
          sum[v] = _mm512_fmadd_ps(value, _mm512_load_ps(at), sum[v]);
        }
      };
      add.template operator()<0>();
      add.template operator()<1>();
      add.template operator()<2>();
      add.template operator()<3>();
    }
#pragma GCC unroll 8
    for (int v = 0; v < kSums; ++v) {
      const __mmask16 mask = v + 1 == kSums ? part.last : 0xffff;
      float* const at = d + v * kLanes;
      if (part.add) sum[v] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, at), sum[v]);
      if (part.bias != nullptr)
        sum[v] = _mm512_add_ps(sum[v], _mm512_maskz_loadu_ps(mask, part.bias + v * kLanes));
      _mm512_mask_storeu_ps(at, mask, sum[v]);
    }
  }
}

constexpr decltype(&sum_rows<1, 1>) kSumRows[4] = {sum_rows<1, 1>, sum_rows<2, 1>, sum_rows<3, 1>,
                                                   sum_rows<4, 1>};

/// Columns that are summed at once, from `column` on.
int64_t columns_at(const Product& product, int64_t column) {
  const int64_t rest = product.columns - column;
  return product.k <= kMaxWideK && rest >= 2 * kPanel ? 2 * kPanel : std::min(kPanel, rest);
}

/// Of the block of q behind this one.
PrefetchHint next_block(const Product& product, int64_t column, int64_t block) {
  const int64_t depth = block_k(product.k);
  int64_t k0 = (block + 1) * depth;
  if (k0 >= product.k) {
    k0 = 0;
    column += columns_at(product, column);
    if (column >= product.columns) return {};
  }
  const int64_t k = std::min(depth, product.k - k0);
  const int64_t columns = columns_at(product, column);
  const MatrixView& q = product.q;
  PrefetchHint ahead{.data = q.data + k0 * q.row_stride + column * q.column_stride};
  const bool by_rows = q.column_stride == 1;
  ahead.stride = by_rows ? q.row_stride : q.column_stride;
  ahead.lines = by_rows ? k : columns;
  ahead.floats = by_rows ? columns : k;
  ahead.lines_a_row = (ahead.lines + product.rows - 1) / product.rows;
  return ahead;
}

}  // namespace

SparsePlan plan_sparse_product(const MatmulProblem& problem) {
  SparsePlan plan;
  if (problem.m * problem.n * problem.k < kMinMultiplications) return plan;
  double best = 0.85;  // of what would be gained at a density of 0
  for (const bool of_b : {false, true}) {
    const Product product = product_of(problem, of_b);
    if (product.rows * product.k > kMaxElements) continue;
    const double limit = break_even_density(product, of_b);
    const double density = sampled_density(product);
    if (density > limit * best) continue;
    best = density / limit;
    plan.worthwhile = true;
    plan.of_b = of_b;
    plan.capacity =
        static_cast<int64_t>(limit * static_cast<double>(product.rows * product.k)) + product.k;
  }
  if (plan.worthwhile) plan.scratch_floats = Layout(product_of(problem, plan.of_b), plan).size;
  return plan;
}

bool sparse_matmul_avx512(const MatmulProblem& problem, const SparsePlan& plan, float* scratch) {
  const Product product = product_of(problem, plan.of_b);
  const Layout layout(product, plan);
  const Nonzeros nonzeros{scratch + layout.values,
                          reinterpret_cast<uint8_t*>(scratch + layout.places),
                          reinterpret_cast<int32_t*>(scratch + layout.ends)};
  if (!list_nonzeros(product, plan.capacity, scratch + layout.lines, nonzeros)) return false;
  float* const packed_q = scratch + layout.packed_q;
  const MatrixView& q = product.q;
  const int64_t depth = block_k(product.k);
  const int64_t blocks = (product.k + depth - 1) / depth;
  int64_t columns = 0;
  for (int64_t column = 0; column < product.columns; column += columns) {
    columns = columns_at(product, column);
    const int64_t width = round_up(columns, kLanes);
    const auto sum_panel = columns > kPanel ? sum_rows<4, 2> : kSumRows[width / kLanes - 1];
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t k0 = block * depth;
      const int64_t k = std::min(depth, product.k - k0);
      const bool last_block = block + 1 == blocks;
      const float* const from = q.data + k0 * q.row_stride + column * q.column_stride;
      pack_panels({from, q.row_stride, q.column_stride}, k, columns, packed_q);
      if (!all_finite(packed_q, k * width)) return false;
      Part part{.p = nonzeros,
                .blocks = blocks,
                .rows = product.rows,
                .q = packed_q,
                .next_panel = k * kPanel,
                .d = problem.c + column,
                .d_stride = problem.c_stride,
                .last = lanes(columns - (width - kLanes)),
                .add = block > 0,
                .bias = last_block && problem.bias != nullptr ? problem.bias + column : nullptr};
      part.p.ends += block;
      PrefetchHint ahead = next_block(product, column, block);
      if (!plan.of_b) {
        sum_panel(part, ahead);
        continue;
      }
      part.bias = nullptr;
      part.d_stride = 2 * kPanel;
      for (int64_t row = 0; row < product.rows; row += kLanes) {
        part.rows = std::min(kLanes, product.rows - row);
        part.d = scratch + layout.d + (blocks == 1 ? 0 : row * part.d_stride);
        sum_panel(part, ahead);
        part.p.ends += kLanes * blocks;
        if (!last_block) continue;
        transpose<false>(part.d, part.d_stride, part.rows, columns,
                         problem.c + column * problem.c_stride + row, problem.c_stride,
                         problem.bias != nullptr ? problem.bias + row : nullptr);
      }
    }
  }
  return true;
}

}  // namespace strata::kernels
