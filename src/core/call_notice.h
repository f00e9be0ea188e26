#pragma once

#include <functional>
#include <string>

#include "core/wait_notice.h"

namespace strata::detail {

/// Says of a wait for another process inside a call that it continues, as WaitNotice does; but a
/// process says so of its calls no more than every 30 s: where a worker is slower than the others,
/// each step has such a wait. Made where a wait has begun to take long. Threads: one.
class CallNotice {
 public:
  using TimePoint = Clock::TimePoint;

  /// @param what  As in WaitNotice.
  CallNotice(std::function<std::string()> what, TimePoint begun, TimePoint deadline)
      : notice_(std::move(what), begun, deadline) {}

  TimePoint next() const;
  void look(TimePoint now);

 private:
  WaitNotice notice_;
};

}  // namespace strata::detail
