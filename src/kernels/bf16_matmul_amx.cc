// Products of bfloat16 matrices with float sums for processors with AMX: 32 rows and 32 columns are summed in four
// registers of 16 x 16. One side is packed as panels of pairs, as for AVX512_BF16; the other is read in place where k
// lies side by side and fills registers, or is packed row by row.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/bf16_matmul_kernels.h"
#include "kernels/bf16_panels.h"

namespace strata::kernels {
namespace {

constexpr int64_t kRegister = 16;          // rows, columns and pairs of k that a register has
constexpr int64_t kBlock = 2 * kRegister;  // rows and columns that are summed at a time
constexpr int64_t kStep = 2 * kRegister;   // of k
constexpr int64_t kPanelColumns = 64;      // that are packed at a time
constexpr int64_t kSumWords = kBlock * kBlock;

/// The shape of all eight registers, as LDTILECFG reads it.
struct alignas(64) RegisterShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(RegisterShapes) == 64);

/// The registers are the thread's while this lives.
class Registers {
 public:
  Registers() {
    const RegisterShapes shapes;
    _tile_loadconfig(&shapes);
  }
  ~Registers() { _tile_release(); }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
};

int64_t padded_k(const Bf16Problem& problem) { return round_up(problem.k, kStep); }

/// Whether a's rows are read in place, but for the last ones where they do not fill a block.
bool in_place(const Bf16Problem& problem) {
  return problem.a.column_stride == 1 && problem.k % kStep == 0;
}

int64_t panel_words(const Bf16Problem& problem) {
  return padded_k(problem) / 2 * std::min(round_up(problem.n, kBlock), kPanelColumns);
}
int64_t packed_rows(const Bf16Problem& problem) {
  return in_place(problem) ? problem.m % kBlock == 0 ? 0 : kBlock : round_up(problem.m, kBlock);
}

/// Packs a[rows, k] row by row, zeros behind its ends: [row][pair].
void pack_by_rows(const Bf16View& a, int64_t rows, int64_t k, int64_t all_rows, uint32_t* out) {
  const int64_t width = round_up(k, kStep) / 2;
  if (a.column_stride == 1) {
    std::memset(out, 0, static_cast<size_t>(all_rows * width) * sizeof(uint32_t));
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(out + row * width, a.data + row * a.row_stride,
                  static_cast<size_t>(k) * sizeof(uint16_t));
    }
    return;
  }
  for (int64_t row = 0; row < all_rows; row += kLanes) {
    const __mmask16 mask = row < rows ? lanes(rows - row) : __mmask16{0};
    for (int64_t pair = 0; pair < width; pair += kLanes) {
      __m512 r[16];
      for (int64_t i = 0; i < kLanes; ++i) {
        const int64_t at = 2 * (pair + i);
        r[i] = at < k ? _mm512_castsi512_ps(load_pairs(a.data + row + at * a.column_stride,
                                                       a.column_stride, at + 1 < k, mask))
                      : _mm512_setzero_ps();
      }
      transpose(r);
      for (int64_t i = 0; i < kLanes; ++i) {
        _mm512_storeu_ps(reinterpret_cast<float*>(out + (row + i) * width + pair), r[i]);
      }
    }
  }
}

/// Packs b[k, columns] as [pair][width], zeros behind its ends.
void pack_panel(const Bf16View& b, int64_t k, int64_t columns, int64_t width, uint32_t* out) {
  const int64_t pairs = (k + 1) / 2;
  if (round_up(columns, kLanes) < width) {
    std::memset(out, 0, static_cast<size_t>(pairs * width) * sizeof(uint32_t));
  }
  (b.column_stride == 1 ? pack_side_by_side : pack_by_columns)(b, k, columns, width, out);
  std::memset(out + pairs * width, 0,
              static_cast<size_t>((round_up(k, kStep) / 2 - pairs) * width) * sizeof(uint32_t));
}

/// sums[32, 32] = a[32, steps * 32] b[steps * 32, 32]. `a_bytes` and `b_bytes` lie between rows.
void sum_block(int64_t steps, const void* a, int64_t a_bytes, const uint32_t* b, int64_t b_bytes,
               float* sums) {
  const char* upper = static_cast<const char*>(a);
  const char* lower = upper + kRegister * a_bytes;
  const char* left = reinterpret_cast<const char*>(b);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(4, upper, a_bytes);
    _tile_loadd(6, left, b_bytes);
    _tile_loadd(7, left + kRegister * 4, b_bytes);
    _tile_loadd(5, lower, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    upper += kStep * 2;
    lower += kStep * 2;
    left += kRegister * b_bytes;
  }
  _tile_stored(0, sums, kBlock * 4);
  _tile_stored(1, sums + kRegister, kBlock * 4);
  _tile_stored(2, sums + kRegister * kBlock, kBlock * 4);
  _tile_stored(3, sums + kRegister * kBlock + kRegister, kBlock * 4);
}

/// Writes the block's part of c.
void write_block(const float* sums, const Bf16Problem& problem, int64_t row, int64_t column) {
  const int64_t rows = std::min(kBlock, problem.m - row);
  const int64_t columns = std::min(kBlock, problem.n - column);
  for (int64_t r = 0; r < rows; ++r, sums += kBlock) {
    const int64_t at = (row + r) * problem.c_stride + column;
    for (int64_t i = 0; i < columns; i += kLanes) {
      const __mmask16 mask = lanes(columns - i);
      __m512 value = _mm512_load_ps(sums + i);
      if (problem.bias != nullptr) {
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, problem.bias + column + i));
      }
      if (problem.c != nullptr) {
        _mm256_mask_storeu_epi16(problem.c + at + i, mask, (__m256i)_mm512_cvtneps_pbh(value));
      } else {
        _mm512_mask_storeu_ps(problem.c_float + at + i, mask, value);
      }
    }
  }
}

}  // namespace

int64_t bf16_amx_scratch_floats(const Bf16Problem& problem) {
  return kSumWords + panel_words(problem) + packed_rows(problem) * padded_k(problem) / 2;
}

void bf16_matmul_amx(const Bf16Problem& problem, float* scratch) {
  float* const sums = scratch;
  auto* const panel = reinterpret_cast<uint32_t*>(scratch + kSumWords);
  uint32_t* const packed = panel + panel_words(problem);
  const int64_t whole_rows = in_place(problem) ? problem.m / kBlock * kBlock : 0;
  if (whole_rows < problem.m) {
    const Bf16View rest{problem.a.data + whole_rows * problem.a.row_stride, problem.a.row_stride,
                        problem.a.column_stride};
    pack_by_rows(rest, problem.m - whole_rows, problem.k, packed_rows(problem), packed);
  }
  const int64_t packed_bytes = padded_k(problem) * 2;
  const Registers registers;
  for (int64_t column = 0; column < problem.n; column += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, problem.n - column);
    const int64_t width = round_up(columns, kBlock);
    pack_panel({problem.b.data + column * problem.b.column_stride, problem.b.row_stride,
                problem.b.column_stride},
               problem.k, columns, width, panel);
    for (int64_t row = 0; row < problem.m; row += kBlock) {
      const bool here = row < whole_rows;
      const void* const a =
          here ? static_cast<const void*>(problem.a.data + row * problem.a.row_stride)
               : packed + (row - whole_rows) * padded_k(problem) / 2;
      for (int64_t part = 0; part < columns; part += kBlock) {
        sum_block(padded_k(problem) / kStep, a, here ? problem.a.row_stride * 2 : packed_bytes,
                  panel + part, width * 4, sums);
        write_block(sums, problem, row, column + part);
      }
    }
  }
}

}  // namespace strata::kernels
