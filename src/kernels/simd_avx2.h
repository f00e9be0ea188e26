#pragma once

// See simd.h; simd_baseline.h says what each function does.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace strata::kernels {
namespace {

using Vec = __m256;
constexpr int64_t kLanes = 8;

/// Of 16 registers: a tile of sums, the vectors that it reads, and a factor.
constexpr int64_t kTileVectors = 2;
constexpr int64_t tile_rows(int64_t vectors) { return vectors == 2 ? 6 : 12; }

inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec all(float value) { return _mm256_set1_ps(value); }
inline Vec load(const float* from) { return _mm256_loadu_ps(from); }
inline Vec load_aligned(const float* from) { return _mm256_load_ps(from); }
inline void store(float* to, Vec value) { _mm256_storeu_ps(to, value); }
inline void store_aligned(float* to, Vec value) { _mm256_store_ps(to, value); }

inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }

struct Lanes {
  int32_t count;
};
inline Lanes lanes(int64_t count) { return {static_cast<int32_t>(std::min(count, kLanes))}; }
inline Vec load(const float* from, Lanes first) {
  if (first.count == kLanes) return load(from);
  static constexpr int32_t kMasks[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1};
  const auto* const mask = reinterpret_cast<const __m256i*>(kMasks + kLanes - first.count);
  return _mm256_maskload_ps(from, _mm256_loadu_si256(mask));
}
// By halves: masked stores are microcode on AMD's processors.
inline void store(float* to, Lanes first, Vec value) {
  if (first.count == kLanes) return store(to, value);
  __m128 rest = _mm256_castps256_ps128(value);
  if ((first.count & 4) != 0) {
    _mm_storeu_ps(to, rest);
    rest = _mm256_extractf128_ps(value, 1);
    to += 4;
  }
  if ((first.count & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
    rest = _mm_movehl_ps(rest, rest);
    to += 2;
  }
  if ((first.count & 1) != 0) _mm_store_ss(to, rest);
}

// bfloat16, as bits.
inline Vec load(const uint16_t* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec load(const uint16_t* from, Lanes first) {
  if (first.count == kLanes) return load(from);
  uint16_t some[kLanes] = {};
  std::memcpy(some, from, static_cast<size_t>(first.count) * sizeof(uint16_t));
  return load(some);
}
inline void store(uint16_t* to, Vec value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd);
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  const __m256 rounded = _mm256_castsi256_ps(_mm256_add_epi32(bits, half));
  const __m256 either =
      _mm256_blendv_ps(rounded, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(either), 16);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
}
inline void store(uint16_t* to, Lanes first, Vec value) {
  if (first.count == kLanes) return store(to, value);
  uint16_t some[kLanes];
  store(some, value);
  std::memcpy(to, some, static_cast<size_t>(first.count) * sizeof(uint16_t));
}

struct Range {
  int32_t begin;
  int32_t count;
};
inline Range range(int64_t begin, int64_t end) {
  const int64_t count = std::min(end, kLanes) - begin;
  return {static_cast<int32_t>(begin), static_cast<int32_t>(std::max<int64_t>(0, count))};
}
inline bool any(Range range) { return range.count > 0; }
inline void store_range(float* to, Range range, Vec value) {
  if (range.begin > 0) {
    static constexpr int32_t kTurned[2 * kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    const auto* const places = reinterpret_cast<const __m256i*>(kTurned + range.begin);
    value = _mm256_permutevar8x32_ps(value, _mm256_loadu_si256(places));
  }
  store(to + range.begin, Lanes{range.count}, value);
}

/// For each choice of lanes their numbers, a byte each.
struct Places {
  constexpr Places() {
    for (uint32_t chosen = 0; chosen < 256; ++chosen) {
      int found = 0;
      for (uint64_t lane = 0; lane < 8; ++lane) {
        if ((chosen >> lane & 1) != 0) bytes[chosen] |= lane << 8 * found++;
      }
    }
  }
  uint64_t bytes[256] = {};
};
constexpr Places kPlaces;

struct Chosen {
  explicit Chosen(uint32_t lanes_chosen)
      : places(kPlaces.bytes[lanes_chosen]), first{__builtin_popcount(lanes_chosen)} {}
  uint64_t places;
  Lanes first;
};
inline int64_t chosen_count(const Chosen& chosen) { return chosen.first.count; }
inline Vec gather_lanes(const Chosen& chosen, Vec value) {
  const __m128i places = _mm_cvtsi64_si128(static_cast<int64_t>(chosen.places));
  return _mm256_permutevar8x32_ps(value, _mm256_cvtepu8_epi32(places));
}

inline uint32_t nonzeros(Vec value) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(value, zero(), _CMP_NEQ_UQ)));
}
inline void store_places(const Chosen& chosen, int64_t first, uint8_t* to) {
  const uint64_t places = chosen.places + static_cast<uint64_t>(first) * 0x0101010101010101;
  std::memcpy(to, &places, sizeof(places));
}
inline bool any_nan(Vec value) {
  return _mm256_movemask_ps(_mm256_cmp_ps(value, value, _CMP_UNORD_Q)) != 0;
}

inline Vec load_four(const float* from) {
  return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from));
}
template <int kElement>
inline Vec all_of_four(Vec four) {
  return _mm256_permute_ps(four, 0x55 * kElement);
}

inline Vec load_strided(const float* from, int64_t stride, int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i at = _mm256_mullo_epi32(_mm256_set1_epi32(static_cast<int>(stride)), lane);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
  return _mm256_mask_i32gather_ps(zero(), from, at, _mm256_castsi256_ps(mask), sizeof(float));
}

inline Vec even(Vec a, Vec b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
inline Vec odd(Vec a, Vec b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
inline Vec alternate_low(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
inline Vec alternate_high(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

inline __attribute__((always_inline)) void transpose(Vec (&r)[kLanes]) {
  Vec t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

}  // namespace
}  // namespace strata::kernels
