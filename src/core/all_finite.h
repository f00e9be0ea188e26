#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace strata {

/// Whether no value is NaN or infinite, for float and double: not all bits of an exponent are set.
template <typename T>
bool all_finite(const T* values, int64_t size) {
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

}  // namespace strata
