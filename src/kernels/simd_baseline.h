#pragma once

// See simd.h. Correct on every processor, and slow: fma() is a call where there is no instruction.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace strata::kernels {
namespace {

using Vec = float __attribute__((vector_size(16)));
constexpr int64_t kLanes = 4;

/// Vectors side by side in the widest tile of sums, and how high a tile is.
constexpr int64_t kTileVectors = 2;
constexpr int64_t tile_rows(int64_t) { return 4; }

inline Vec zero() { return Vec{}; }
inline Vec all(float value) { return Vec{value, value, value, value}; }
inline Vec load(const float* from) {
  Vec value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
inline Vec load_aligned(const float* from) { return load(from); }
inline void store(float* to, Vec value) { std::memcpy(to, &value, sizeof(value)); }
inline void store_aligned(float* to, Vec value) { store(to, value); }

inline Vec add(Vec a, Vec b) { return a + b; }
inline Vec sub(Vec a, Vec b) { return a - b; }
inline Vec mul(Vec a, Vec b) { return a * b; }
/// a b + c, rounded once.
inline __attribute__((noinline)) Vec fma(Vec a, Vec b, Vec c) {
  for (int i = 0; i < kLanes; ++i) c[i] = std::fma(a[i], b[i], c[i]);
  return c;
}

/// The first lanes of a vector; memory of the others is neither read nor written.
struct Lanes {
  int64_t count;
};
inline Lanes lanes(int64_t count) { return {std::min(count, kLanes)}; }
/// Zeros in the other lanes.
inline Vec load(const float* from, Lanes first) {
  Vec value{};
  std::memcpy(&value, from, static_cast<size_t>(first.count) * sizeof(float));
  return value;
}
inline void store(float* to, Lanes first, Vec value) {
  std::memcpy(to, &value, static_cast<size_t>(first.count) * sizeof(float));
}

/// bfloat16, as bits: to float, and rounded to the nearest, ties to even; NaN stays NaN.
inline Vec load(const uint16_t* from) {
  Vec value;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    std::memcpy(reinterpret_cast<char*>(&value) + i * 4, &bits, sizeof(bits));
  }
  return value;
}
inline Vec load(const uint16_t* from, Lanes first) {
  uint16_t some[kLanes] = {};
  std::memcpy(some, from, static_cast<size_t>(first.count) * sizeof(uint16_t));
  return load(some);
}
inline void store(uint16_t* to, Lanes first, Vec value) {
  for (int64_t i = 0; i < first.count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, reinterpret_cast<const char*>(&value) + i * 4, sizeof(bits));
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    to[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
  }
}
inline void store(uint16_t* to, Vec value) { store(to, lanes(kLanes), value); }

/// Lanes [begin, end) of a vector, as far as there are any.
struct Range {
  int64_t begin;
  int64_t count;
};
inline Range range(int64_t begin, int64_t end) {
  return {begin, std::max<int64_t>(0, std::min(end, kLanes) - begin)};
}
inline bool any(Range range) { return range.count > 0; }
/// Lane i of the range to to[i].
inline void store_range(float* to, Range range, Vec value) {
  for (int64_t i = range.begin; i < range.begin + range.count; ++i) to[i] = value[i];
}

/// Some lanes, a bit for each.
struct Chosen {
  explicit Chosen(uint32_t lanes_chosen) : from(lanes_chosen) {
    first.count = __builtin_popcount(lanes_chosen);
  }
  uint32_t from;
  Lanes first;  ///< As many.
};
/// How many they are.
inline int64_t chosen_count(const Chosen& chosen) { return chosen.first.count; }
/// The chosen lanes, moved to the front.
inline Vec gather_lanes(const Chosen& chosen, Vec value) {
  Vec gathered{};
  int found = 0;
  for (int i = 0; i < kLanes; ++i) {
    if ((chosen.from >> i & 1) != 0) gathered[found++] = value[i];
  }
  return gathered;
}

/// Which lanes are not zero (a NaN is not), a bit for each.
inline uint32_t nonzeros(Vec value) {
  uint32_t found = 0;
  for (int i = 0; i < kLanes; ++i) found |= (value[i] != 0 ? 1u : 0u) << i;
  return found;
}
/// first + the number of each chosen lane, below 256. As many bytes as a vector has lanes are written.
inline void store_places(const Chosen& chosen, int64_t first, uint8_t* to) {
  int found = 0;
  for (int i = 0; i < kLanes; ++i) {
    if ((chosen.from >> i & 1) != 0) to[found++] = static_cast<uint8_t>(first + i);
  }
}
inline bool any_nan(Vec value) {
  bool found = false;
  for (int i = 0; i < kLanes; ++i) found |= std::isnan(value[i]);
  return found;
}

/// Four floats, repeated; and one of them in all lanes.
inline Vec load_four(const float* from) { return load(from); }
template <int kElement>
inline Vec all_of_four(Vec four) {
  return all(four[kElement]);
}

/// from[0], from[stride], ...: the first `count` lanes, zeros in the others.
inline Vec load_strided(const float* from, int64_t stride, int64_t count) {
  Vec value{};
  for (int64_t i = 0; i < std::min(count, kLanes); ++i) value[i] = from[i * stride];
  return value;
}

/// Every second float of a and b, from the first or the second one on.
inline Vec even(Vec a, Vec b) { return Vec{a[0], a[2], b[0], b[2]}; }
inline Vec odd(Vec a, Vec b) { return Vec{a[1], a[3], b[1], b[3]}; }
/// Floats of a and b by turns: of their lower halves, of their upper ones.
inline Vec alternate_low(Vec a, Vec b) { return Vec{a[0], b[0], a[1], b[1]}; }
inline Vec alternate_high(Vec a, Vec b) { return Vec{a[2], b[2], a[3], b[3]}; }

/// r[i][j] becomes r[j][i].
inline void transpose(Vec (&r)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < i; ++j) {
      const float upper = r[i][j];
      r[i][j] = r[j][i];
      r[j][i] = upper;
    }
  }
}

}  // namespace
}  // namespace strata::kernels
