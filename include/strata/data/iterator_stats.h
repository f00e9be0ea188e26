#pragma once

#include <chrono>
#include <cstdint>

namespace strata::data {

/// Statistics of a pipeline since its iterator was made. To find out whether training waits for
/// input, compare `wait_time` with the duration of the loop.
struct IteratorStats {
  int64_t elements = 0;  ///< returned by `next`
  int64_t bytes = 0;     ///< in their tensors
  /// The duration of `next`, all calls together. Without threads that is computing the elements.
  std::chrono::nanoseconds wait_time{0};
  /// The time that threads worked on this iterator's elements, added up; without waiting for room
  /// or for each other.
  std::chrono::nanoseconds produce_time{0};
  int64_t buffered_bytes = 0;  ///< now, made ahead by prefetch, map and interleave
  /// elements that `ignore_errors` left out, also those read ahead
  int64_t ignored_errors = 0;
};

}  // namespace strata::data
