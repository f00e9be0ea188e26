#pragma once

#include <cstdint>

namespace strata::detail {

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014): the
/// state advances by `kSplitMix64Step`, and each state is mixed into a number. Results rest on it,
/// saved ones too: never change it.
inline constexpr uint64_t kSplitMix64Step = 0x9E3779B97F4A7C15;

/// Stafford's variant 13: a bijection in which every bit of the input changes every bit of the
/// output.
constexpr uint64_t split_mix64(uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EB;
  return state ^ (state >> 31);
}

}  // namespace strata::detail
