#include "core/log_limiter.h"

#include <utility>

#include "strata/core/str_cat.h"

namespace strata::detail {

std::optional<std::string> LogLimiter::admit(Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    lines_ = 0;
  }
  if (lines_ >= limit_) {
    ++left_out_;
    return std::nullopt;
  }
  ++lines_;
  const uint64_t left_out = std::exchange(left_out_, 0);
  return left_out == 0 ? std::string() : str_cat(" (and ", left_out, " more like it before)");
}

}  // namespace strata::detail
