#include "core/all_finite.h"

#include <bit>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/cpu_isa.h"

namespace strata {
namespace {

// A value is not finite if all bits of its exponent are set.

template <typename T>
bool finite_in_blocks(const T* values, int64_t size) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits kExponent =
      sizeof(T) == 4 ? Bits{0x7F800000} : static_cast<Bits>(0x7FF0000000000000);
  const auto found = [](T value) -> Bits {
    return (std::bit_cast<Bits>(value) & kExponent) == kExponent ? 1 : 0;
  };
  // Blocks of a fixed size, without branches: -O2 vectorises no other loops.
  constexpr int64_t kBlock = 64;
  int64_t i = 0;
  for (; i + kBlock <= size; i += kBlock) {
    Bits any = 0;
    for (int64_t j = 0; j < kBlock; ++j) any |= found(values[i + j]);
    if (any != 0) return false;
  }
  Bits any = 0;
  for (; i < size; ++i) any |= found(values[i]);
  return any == 0;
}

#if defined(__x86_64__)

/// How many values from the front on are finite, in whole blocks of four vectors.
template <typename T>
__attribute__((target("avx512f"))) int64_t count_finite(const T* values, int64_t size) {
  constexpr int64_t kLanes = 64 / sizeof(T);
  const __m512i exponent =
      sizeof(T) == 4 ? _mm512_set1_epi32(0x7F800000) : _mm512_set1_epi64(0x7FF0000000000000);
  int64_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    int found = 0;
    for (int64_t j = 0; j < 4 * kLanes; j += kLanes) {
      const __m512i bits = _mm512_and_si512(_mm512_loadu_si512(values + i + j), exponent);
      found |= sizeof(T) == 4 ? _mm512_cmpeq_epi32_mask(bits, exponent)
                              : _mm512_cmpeq_epi64_mask(bits, exponent);
    }
    if (found != 0) break;
  }
  return i;
}

template <typename T>
bool finite(const T* values, int64_t size) {
  const int64_t begin = best_cpu_isa() == CpuIsa::kAvx512 ? count_finite(values, size) : int64_t{0};
  return finite_in_blocks(values + begin, size - begin);
}

#else

template <typename T>
bool finite(const T* values, int64_t size) {
  return finite_in_blocks(values, size);
}

#endif

}  // namespace

bool all_finite(const float* values, int64_t size) { return finite(values, size); }
bool all_finite(const double* values, int64_t size) { return finite(values, size); }

}  // namespace strata
