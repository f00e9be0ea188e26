#pragma once

#include <cstdint>

#include "strata/core/export.h"

namespace strata::data {

/// Identifies an element, independent of thread and time. `map` passes it to functions that draw
/// random numbers.
struct ElementKey {
  uint64_t seed = 0;   ///< MapOptions::seed
  uint64_t epoch = 0;  ///< rounds of a later `repeat` count as epochs
  uint64_t index = 0;  ///< the element's in the map's input, from 0 in each epoch
  /// the number of random transforms before it: two maps draw different numbers
  uint64_t stage = 0;
};

/// Random numbers that depend on a key alone: augmentation is the same for any number of threads
/// and after a restore. SplitMix64, counter based. A value; copies draw the same. Threads: one at a
/// time.
///
///     images.map([](Example e, const ElementKey& key) {
///       RandomNumbers random(key);
///       if (random.bernoulli(0.5)) e.fields[0] = e.x().flip(1);
///       return e;
///     }, {.num_parallel_calls = 4, .seed = 7});
class STRATA_API RandomNumbers {
 public:
  explicit RandomNumbers(const ElementKey& key);

  /// 64 random bits.
  uint64_t bits();

  /// 0..bound-1. @throws Error kInvalidArgument: bound is 0.
  uint64_t below(uint64_t bound);

  /// Uniform in [low, high), a multiple of 2^-53 of the range.
  double uniform(double low = 0, double high = 1);

  /// True with `probability`.
  bool bernoulli(double probability) { return uniform() < probability; }

  /// Gaussian (Box and Muller 1958; each call draws two numbers).
  double normal(double mean = 0, double deviation = 1);

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

}  // namespace strata::data
