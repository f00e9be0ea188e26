#pragma once

#include <cstdint>
#include <cstring>

// Elements of float and of bfloat16 (as bits) in loops that the compiler vectorizes. All of it is in
// an unnamed namespace, as in simd.h.

namespace strata::kernels {
namespace {

inline __attribute__((always_inline)) float as_float(float value) { return value; }
inline __attribute__((always_inline)) float as_float(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// `value` as it is, or as bfloat16: to the nearest, ties to even; NaN stays NaN.
template <typename Element>
Element rounded(float value);
template <>
inline __attribute__((always_inline)) float rounded<float>(float value) {
  return value;
}
template <>
inline __attribute__((always_inline)) uint16_t rounded<uint16_t>(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t nearest = bits + 0x7fffu + (bits >> 16 & 1);
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : nearest >> 16);
}

}  // namespace
}  // namespace strata::kernels
