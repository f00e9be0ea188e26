#pragma once

#include <atomic>

#include "core/clock.h"
#include "core/mutex.h"

namespace strata::testing {

/// A clock that moves only when the test says so.
class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(ticks_.load())); }

  void advance(Duration by) { ticks_ += by.count(); }

  /// How many waits have ended at their deadline.
  int missed_deadlines() const { return missed_deadlines_; }

  // Looks again every millisecond of real time: `advance` cannot notify, since it does not know the
  // waiters' condition variables. How long a test takes depends on that; what it sees does not.
  bool wait_until(MutexLock& lock, ConditionVariable& condition, TimePoint deadline,
                  const std::function<bool()>& done) override {
    while (!done()) {
      if (now() >= deadline) {
        ++missed_deadlines_;
        return false;
      }
      condition.wait_for(lock, std::chrono::milliseconds(1));
    }
    return true;
  }

 private:
  std::atomic<Duration::rep> ticks_{0};
  std::atomic<int> missed_deadlines_{0};
};

}  // namespace strata::testing
