#include "core/clock.h"

namespace strata {
namespace {

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  bool wait_until(MutexLock& lock, ConditionVariable& condition, TimePoint deadline,
                  const std::function<bool()>& done) override {
    // TimePoint::max() overflows inside some standard libraries' wait_until.
    if (deadline == TimePoint::max()) {
      condition.wait(lock, done);
      return true;
    }
    return condition.wait_until(lock, deadline, done);
  }
};

}  // namespace

Clock& Clock::system() {
  static SystemClock clock;
  return clock;
}

}  // namespace strata
