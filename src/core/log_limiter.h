#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "core/mutex.h"

namespace strata::detail {

/// Bounds how many lines of one kind a second may bring into the log, for lines that a stranger can
/// cause. Threads: any.
class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LogLimiter(int lines_a_second = 10) : limit_(lines_a_second) {}

  /// Whether a line may be written now. @return nullopt: it may not, and is counted; otherwise what
  /// to put behind it: " (and 12 more like it)", or nothing.
  std::optional<std::string> admit(Clock::time_point now = Clock::now());

 private:
  const int limit_;
  Mutex mutex_;
  Clock::time_point second_ STRATA_GUARDED_BY(mutex_){};  // when it began
  int lines_ STRATA_GUARDED_BY(mutex_) = 0;               // in it
  uint64_t left_out_ STRATA_GUARDED_BY(mutex_) = 0;       // since the last line
};

}  // namespace strata::detail
