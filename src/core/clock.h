#pragma once

#include <chrono>
#include <functional>

#include "core/mutex.h"
#include "strata/core/export.h"

namespace strata {

/// The source of time for deadlines: the system's steady clock, or a test's own
/// (tests/support/fake_clock.h). Threads: any.
class STRATA_API Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;

  virtual TimePoint now() const = 0;

  /// Waits on `condition` until `done()` or until this clock shows `deadline`. `lock` must be held;
  /// `done` is called with it held.
  /// @return the last value of `done()`.
  virtual bool wait_until(MutexLock& lock, ConditionVariable& condition, TimePoint deadline,
                          const std::function<bool()>& done) = 0;

  /// The steady clock of this machine.
  static Clock& system();

 protected:
  Clock() = default;
  Clock(const Clock&) = default;
  Clock& operator=(const Clock&) = default;
};

}  // namespace strata
