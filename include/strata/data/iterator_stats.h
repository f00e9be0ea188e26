#pragma once

#include <chrono>
#include <cstdint>

namespace strata::data {

/// How a pipeline fares, since its iterator was made. Whether training waits for input: compare
/// `wait_time` with the time that the loop took.
struct IteratorStats {
  int64_t elements = 0;  ///< that `next` gave
  int64_t bytes = 0;     ///< in their tensors
  /// That `next` took, all calls together. Where nothing runs ahead, that is making the elements.
  std::chrono::nanoseconds wait_time{0};
  /// That threads worked on this iterator's elements, added up; waiting for room or for each other
  /// is not in it.
  std::chrono::nanoseconds produce_time{0};
  int64_t buffered_bytes = 0;  ///< now, made ahead by prefetch, map and interleave
  int64_t ignored_errors =
      0;  ///< elements that `ignore_errors` left out, those read ahead included
};

}  // namespace strata::data
