#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

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
  std::mutex mutex_;
  Clock::time_point second_{};  // guarded by mutex_: when it began
  int lines_ = 0;               // guarded by mutex_: in it
  uint64_t left_out_ = 0;       // guarded by mutex_: since the last line
};

}  // namespace strata::detail
