#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace strata::wire {

/// Says which streams are worth a try. Threads: `poll` one at a time, the others any.
class Reactor {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~Reactor() = default;
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// With a key: the other side writes no more, or the stream has failed.
  static constexpr uint64_t kHungUp = uint64_t{1} << 63;

  /// Adds the keys of streams where something may have changed; sleeps until there is one, until
  /// `until`, or until `interrupt`. @param until  TimePoint::min(): looks, and does not sleep.
  virtual void poll(std::vector<uint64_t>& ready, TimePoint until) = 0;

  /// Ends the `poll` that sleeps, or the next one that would.
  virtual void interrupt() = 0;

 protected:
  Reactor() = default;
};

}  // namespace strata::wire
