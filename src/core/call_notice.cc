#include "core/call_notice.h"

#include <algorithm>
#include <atomic>

namespace strata::detail {
namespace {

/// When the process may say so again, in ticks of the clock.
std::atomic<Clock::TimePoint::rep>& next_line() {
  static std::atomic<Clock::TimePoint::rep> next{0};
  return next;
}

}  // namespace

CallNotice::TimePoint CallNotice::next() const {
  const TimePoint allowed(Clock::Duration(next_line().load(std::memory_order_relaxed)));
  return std::max(notice_.next(), allowed);
}

void CallNotice::look(TimePoint now) {
  auto allowed = next_line().load(std::memory_order_relaxed);
  if (now < notice_.next() || now.time_since_epoch().count() < allowed) return;
  const auto then = (now + WaitNotice::kThen).time_since_epoch().count();
  if (next_line().compare_exchange_strong(allowed, then)) notice_.look(now);
}

}  // namespace strata::detail
