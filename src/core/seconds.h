#pragma once

#include <chrono>

namespace strata::detail {

/// Of any duration, as people read it.
constexpr double in_seconds(std::chrono::duration<double> time) { return time.count(); }

/// Seconds since 1970, for what is written to files.
inline double unix_time() {
  return in_seconds(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace strata::detail
