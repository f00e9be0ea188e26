#pragma once

#include <algorithm>
#include <chrono>

namespace strata::wire {

/// A point of the steady clock at which waiting ends. Calls pass it on unchanged, so that the steps
/// of one operation share one limit.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param limit  From now; a limit of a year or more is a year.
  static Deadline after(std::chrono::nanoseconds limit) {
    constexpr std::chrono::nanoseconds kNever = std::chrono::hours(24 * 365);
    return Deadline(Clock::now() + std::clamp(limit, std::chrono::nanoseconds(0), kNever));
  }
  static Deadline at(Clock::time_point time) { return Deadline(time); }
  /// Returns the earlier one.
  static Deadline sooner(Deadline a, Deadline b) { return a.time_ < b.time_ ? a : b; }

  Clock::time_point time() const noexcept { return time_; }
  bool passed() const { return Clock::now() >= time_; }
  /// The remaining time, never below zero.
  std::chrono::nanoseconds left() const {
    return std::max<std::chrono::nanoseconds>(time_ - Clock::now(), std::chrono::nanoseconds(0));
  }

 private:
  explicit Deadline(Clock::time_point time) : time_(time) {}

  Clock::time_point time_;
};

}  // namespace strata::wire
