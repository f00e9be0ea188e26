#pragma once

// See simd.h; simd_baseline.h says what each function does.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace strata::kernels {
namespace {

using Vec = __m512;
constexpr int64_t kLanes = 16;

/// Of 32 registers: a tile of sums, the vectors that it reads, and a factor.
constexpr int64_t kTileVectors = 4;
constexpr int64_t tile_rows(int64_t vectors) { return vectors == 4 ? 6 : vectors == 3 ? 8 : 12; }

inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec all(float value) { return _mm512_set1_ps(value); }
inline Vec load(const float* from) { return _mm512_loadu_ps(from); }
inline Vec load_aligned(const float* from) { return _mm512_load_ps(from); }
inline void store(float* to, Vec value) { _mm512_storeu_ps(to, value); }
inline void store_aligned(float* to, Vec value) { _mm512_store_ps(to, value); }

inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

using Lanes = __mmask16;
inline Lanes lanes(int64_t count) {
  return static_cast<Lanes>(count >= kLanes ? 0xffff : (1u << count) - 1);
}
inline Vec load(const float* from, Lanes first) { return _mm512_maskz_loadu_ps(first, from); }
inline void store(float* to, Lanes first, Vec value) { _mm512_mask_storeu_ps(to, first, value); }

// bfloat16, as bits.
inline Vec load(const uint16_t* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline Vec load(const uint16_t* from, Lanes first) {
  if (first == 0xffff) return load(from);
  uint16_t some[kLanes] = {};
  std::memcpy(some, from, static_cast<size_t>(__builtin_popcount(first)) * sizeof(uint16_t));
  return load(some);
}
inline void store(uint16_t* to, Vec value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  const __m512i rounded =
      _mm512_mask_blend_epi32(nan, _mm512_add_epi32(bits, half), _mm512_set1_epi32(0x7fc00000));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
inline void store(uint16_t* to, Lanes first, Vec value) {
  if (first == 0xffff) return store(to, value);
  uint16_t some[kLanes];
  store(some, value);
  std::memcpy(to, some, static_cast<size_t>(__builtin_popcount(first)) * sizeof(uint16_t));
}

using Range = __mmask16;
inline Range range(int64_t begin, int64_t end) {
  return begin >= end ? Range{0} : static_cast<Range>(lanes(end) & ~((1u << begin) - 1));
}
inline bool any(Range range) { return range != 0; }
inline void store_range(float* to, Range range, Vec value) {
  _mm512_mask_storeu_ps(to, range, value);
}

struct Chosen {
  explicit Chosen(uint32_t lanes_chosen)
      : from(static_cast<__mmask16>(lanes_chosen)),
        first(lanes(__builtin_popcount(lanes_chosen))) {}
  __mmask16 from;
  Lanes first;
};
inline int64_t chosen_count(const Chosen& chosen) { return __builtin_popcount(chosen.from); }
inline Vec gather_lanes(const Chosen& chosen, Vec value) {
  return _mm512_maskz_compress_ps(chosen.from, value);
}

inline uint32_t nonzeros(Vec value) { return _mm512_cmp_ps_mask(value, zero(), _CMP_NEQ_UQ); }
inline void store_places(const Chosen& chosen, int64_t first, uint8_t* to) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i places = _mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<int>(first)));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm512_maskz_cvtepi32_epi8(0xffff, _mm512_maskz_compress_epi32(chosen.from, places)));
}
inline bool any_nan(Vec value) { return _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q) != 0; }

inline Vec load_four(const float* from) {
  return _mm512_maskz_broadcast_f32x4(0xffff, _mm_load_ps(from));
}
template <int kElement>
inline Vec all_of_four(Vec four) {
  return _mm512_maskz_permute_ps(0xffff, four, 0x55 * kElement);
}

inline Vec load_strided(const float* from, int64_t stride, int64_t count) {
  const __m512i at =
      _mm512_mullo_epi32(_mm512_set1_epi32(static_cast<int>(stride)),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  return _mm512_mask_i32gather_ps(zero(), lanes(count), at, from, sizeof(float));
}

// __builtin_shufflevector, because GCC 12 warns inside its own intrinsics of these.
#define STRATA_EVERY_SECOND(a, b, s)                                                           \
  __builtin_shufflevector(a, b, s, s + 2, s + 4, s + 6, s + 8, s + 10, s + 12, s + 14, s + 16, \
                          s + 18, s + 20, s + 22, s + 24, s + 26, s + 28, s + 30)
inline Vec even(Vec a, Vec b) { return STRATA_EVERY_SECOND(a, b, 0); }
inline Vec odd(Vec a, Vec b) { return STRATA_EVERY_SECOND(a, b, 1); }
#undef STRATA_EVERY_SECOND

#define STRATA_ALTERNATE(a, b, s)                                                              \
  __builtin_shufflevector(a, b, s, s + 16, s + 1, s + 17, s + 2, s + 18, s + 3, s + 19, s + 4, \
                          s + 20, s + 5, s + 21, s + 6, s + 22, s + 7, s + 23)
inline Vec alternate_low(Vec a, Vec b) { return STRATA_ALTERNATE(a, b, 0); }
inline Vec alternate_high(Vec a, Vec b) { return STRATA_ALTERNATE(a, b, 8); }
#undef STRATA_ALTERNATE

// One step of a transposition on each group of 4 lanes, or on whole groups.
#define STRATA_LANES(x, a, b, c, d, step)                                                       \
  __builtin_shufflevector(x[0], x[1], a, b, c, d, a + step, b + step, c + step, d + step,       \
                          a + 2 * step, b + 2 * step, c + 2 * step, d + 2 * step, a + 3 * step, \
                          b + 3 * step, c + 3 * step, d + 3 * step)
#define STRATA_GROUPS(x, a, b)                                                                \
  __builtin_shufflevector(x[0], x[1], a, a + 1, a + 2, a + 3, b, b + 1, b + 2, b + 3, a + 16, \
                          a + 17, a + 18, a + 19, b + 16, b + 17, b + 18, b + 19)

inline __attribute__((always_inline)) void transpose(Vec (&r)[kLanes]) {
  Vec t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    const Vec pair[2] = {r[i], r[i + 1]};
    t[i] = STRATA_LANES(pair, 0, 16, 1, 17, 4);
    t[i + 1] = STRATA_LANES(pair, 2, 18, 3, 19, 4);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 4) {
    const Vec first[2] = {t[i], t[i + 2]};
    const Vec second[2] = {t[i + 1], t[i + 3]};
    r[i] = STRATA_LANES(first, 0, 1, 16, 17, 4);
    r[i + 1] = STRATA_LANES(first, 2, 3, 18, 19, 4);
    r[i + 2] = STRATA_LANES(second, 0, 1, 16, 17, 4);
    r[i + 3] = STRATA_LANES(second, 2, 3, 18, 19, 4);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Vec upper[2] = {r[i], r[i + 4]};
    const Vec lower[2] = {r[i + 8], r[i + 12]};
    t[i] = STRATA_GROUPS(upper, 0, 8);
    t[i + 4] = STRATA_GROUPS(upper, 4, 12);
    t[i + 8] = STRATA_GROUPS(lower, 0, 8);
    t[i + 12] = STRATA_GROUPS(lower, 4, 12);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Vec first[2] = {t[i], t[i + 8]};
    const Vec second[2] = {t[i + 4], t[i + 12]};
    r[i] = STRATA_GROUPS(first, 0, 8);
    r[i + 4] = STRATA_GROUPS(second, 0, 8);
    r[i + 8] = STRATA_GROUPS(first, 4, 12);
    r[i + 12] = STRATA_GROUPS(second, 4, 12);
  }
}

#undef STRATA_LANES
#undef STRATA_GROUPS

}  // namespace
}  // namespace strata::kernels
