#pragma once

#include <cstdint>

#include "core/split_mix64.h"

namespace strata::data::detail {

/// Counter-based random numbers: number `i` of a stream depends on the stream's key and `i` alone.
/// It is SplitMix64 with the key as its seed, jumped to step i. The numbers are part of the format
/// of saved positions: never change them.
class RandomStream {
 public:
  /// `stage` tells streams of one seed apart that must not be alike.
  RandomStream(uint64_t seed, uint64_t epoch, uint64_t stage)
      : key_(mix(mix(mix(seed + strata::detail::kSplitMix64Step) + epoch) + stage)) {}

  uint64_t bits(uint64_t i) const { return at(key_, i); }

  /// Number i of the stream with `key`.
  static uint64_t at(uint64_t key, uint64_t i) {
    return strata::detail::split_mix64(key + (i + 1) * strata::detail::kSplitMix64Step);
  }

  /// Uniform in 0..bound-1 up to a bias of bound / 2^64 (multiply and shift, Lemire 2019).
  uint64_t below(uint64_t bound, uint64_t i) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(bits(i)) * bound) >> 64);
  }

 private:
  static uint64_t mix(uint64_t state) { return strata::detail::split_mix64(state); }

  uint64_t key_;
};

}  // namespace strata::data::detail
