#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "core/clock.h"

namespace strata::detail {

/// Says of a wait for another process that it continues: after 5 s, and then every 30 s, in a
/// warning. A waiting thread calls `look` at `next()`, or more often. Threads: one.
class WaitNotice {
 public:
  using TimePoint = Clock::TimePoint;
  static constexpr std::chrono::seconds kFirst{5};
  static constexpr std::chrono::seconds kThen{30};

  /// @param what      For whom and where: "[wire] connect: waits for /job:ps/task:0 at ps-0:2222".
  ///                  Asked when it is to be said.
  /// @param begun     When the wait began.
  /// @param deadline  When it will end; the far future: not said.
  WaitNotice(std::function<std::string()> what, TimePoint begun, TimePoint deadline)
      : what_(std::move(what)), begun_(begun), deadline_(deadline), next_(begun + kFirst) {}

  TimePoint next() const { return next_; }
  void look(TimePoint now);

 private:
  const std::function<std::string()> what_;
  const TimePoint begun_;
  const TimePoint deadline_;
  TimePoint next_;
};

}  // namespace strata::detail
