#include "data/images/resize_kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace strata::data::detail {
namespace {

// Bytes become floats several times as fast with AVX2. Without contraction (CMakeLists.txt) both
// give the same bits. (Not target_clones: the thread sanitizer does not survive ifuncs.)
#if defined(__x86_64__)
#define STRATA_AVX2 __attribute__((target("avx2")))
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#else
#define STRATA_AVX2
constexpr bool has_avx2() { return false; }
#endif

template <class T>
__attribute__((always_inline)) inline void lerp_rows_inline(const T* a, const T* b, float part,
                                                            size_t size, float* out) {
  for (size_t i = 0; i < size; ++i) {
    const auto first = static_cast<float>(a[i]);
    out[i] = first + (static_cast<float>(b[i]) - first) * part;
  }
}

template <class T>
STRATA_AVX2 void lerp_rows_avx2(const T* a, const T* b, float part, size_t size, float* out) {
  lerp_rows_inline(a, b, part, size, out);
}

template <class T>
void lerp_rows_any(const T* a, const T* b, float part, size_t size, float* out) {
  if (has_avx2()) return lerp_rows_avx2(a, b, part, size, out);
  lerp_rows_inline(a, b, part, size, out);
}

template <int kChannels, class T>
void lerp_fixed(const T* row, std::span<const Lerp> columns, float* out) {
  for (const Lerp& column : columns) {
    for (int c = 0; c < kChannels; ++c) {
      const auto a = static_cast<float>(row[column.low + c]);
      const auto b = static_cast<float>(row[column.high + c]);
      out[c] = a + (b - a) * column.part;
    }
    out += kChannels;
  }
}

// RGB as vectors of four, of which the last is the next pixel's: it is overwritten by that one. So
// the last pixels, with nothing behind them, go one by one.
template <class T>
void lerp_rgb(const T* row, std::span<const Lerp> columns, float* out) {
  using Floats = float __attribute__((vector_size(16)));
  const auto load = [row](int32_t at) {
    if constexpr (std::is_same_v<T, float>) {
      Floats values;
      std::memcpy(&values, row + at, sizeof(values));
      return values;
    } else {
      using Bytes = uint8_t __attribute__((vector_size(4)));
      Bytes values;
      std::memcpy(&values, row + at, sizeof(values));
      return __builtin_convertvector(values, Floats);
    }
  };
  const int32_t last = columns.empty() ? 0 : columns.back().high;
  size_t i = 0;
  for (; i + 1 < columns.size() && columns[i].high < last; ++i, out += 3) {
    const Floats a = load(columns[i].low), b = load(columns[i].high);
    const Floats between = a + (b - a) * columns[i].part;
    std::memcpy(out, &between, sizeof(between));
  }
  lerp_fixed<3>(row, columns.subspan(i), out);
}

template <class T>
void lerp_any(const T* row, std::span<const Lerp> columns, int64_t channels, float* out) {
  switch (channels) {
    case 1:
      return lerp_fixed<1>(row, columns, out);
    case 3:
      return lerp_rgb(row, columns, out);
    case 4:
      return lerp_fixed<4>(row, columns, out);
    default:
      break;
  }
  for (const Lerp& column : columns) {
    for (int64_t c = 0; c < channels; ++c) {
      const auto a = static_cast<float>(row[column.low + c]);
      const auto b = static_cast<float>(row[column.high + c]);
      *out++ = a + (b - a) * column.part;
    }
  }
}

template <class T>
void weigh_any(const T* row, const Spans& columns, int64_t channels, float* out) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto [first, weights] = columns[i];
    std::fill(out, out + channels, 0.0F);
    const T* at = row + first * channels;
    for (const float weight : weights) {
      for (int64_t c = 0; c < channels; ++c) out[c] += weight * static_cast<float>(at[c]);
      at += channels;
    }
    out += channels;
  }
}

}  // namespace

void lerp_columns(const uint8_t* row, std::span<const Lerp> columns, int64_t channels, float* out) {
  lerp_any(row, columns, channels, out);
}
void lerp_columns(const float* row, std::span<const Lerp> columns, int64_t channels, float* out) {
  lerp_any(row, columns, channels, out);
}

void lerp_rows(const uint8_t* a, const uint8_t* b, float part, size_t size, float* out) {
  lerp_rows_any(a, b, part, size, out);
}
void lerp_rows(const float* a, const float* b, float part, size_t size, float* out) {
  lerp_rows_any(a, b, part, size, out);
}

void Spans::add(int64_t first, std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  first_.push_back(first);
  for (const double weight : weights) weights_.push_back(static_cast<float>(weight / sum));
  begin_.push_back(weights_.size());
}

void weigh_columns(const uint8_t* row, const Spans& columns, int64_t channels, float* out) {
  weigh_any(row, columns, channels, out);
}
void weigh_columns(const float* row, const Spans& columns, int64_t channels, float* out) {
  weigh_any(row, columns, channels, out);
}

void weigh_rows(const float* rows, const Spans& spans, size_t which, size_t row_size, float* out) {
  const auto [first, weights] = spans[which];
  const float* at = rows + static_cast<size_t>(first) * row_size;
  std::fill(out, out + row_size, 0.0F);
  for (const float weight : weights) {
    for (size_t i = 0; i < row_size; ++i) out[i] += weight * at[i];
    at += row_size;
  }
}

}  // namespace strata::data::detail
