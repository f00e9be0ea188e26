#pragma once

#include <chrono>
#include <string_view>

#include "core/mutex.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::ps {

/// The log of what a library thread caught and lives on with: mostly want of memory, which may come
/// again at once, so that it writes a line a second at most. Threads: any.
class FailureLog {
 public:
  void log(std::string_view where, const Status& why) noexcept {
    try {
      const MutexLock lock(mutex_);
      const auto now = std::chrono::steady_clock::now();
      if (now < next_) return;
      next_ = now + std::chrono::seconds(1);
      STRATA_LOG(kWarning) << "[ps] " << where << ": " << why.message() << "; continuing";
    } catch (...) {  // no memory for the line either
    }
  }

 private:
  Mutex mutex_;
  std::chrono::steady_clock::time_point next_ STRATA_GUARDED_BY(mutex_){};
};

}  // namespace strata::ps
