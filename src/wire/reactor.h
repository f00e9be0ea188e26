#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace strata::wire {

/// Reports which streams are ready (epoll, or a simulated network). Threads: `poll` one at a time,
/// `interrupt` any.
class Reactor {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~Reactor() = default;
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Set in a reported key: the peer has shut down its sending side, or the stream has failed.
  static constexpr uint64_t kHungUp = uint64_t{1} << 63;

  /// Appends the keys of streams that may be ready. Blocks until there is one, until `until`, or
  /// until `interrupt`. @param until  TimePoint::min(): does not block.
  virtual void poll(std::vector<uint64_t>& ready, TimePoint until) = 0;

  /// Wakes the blocked `poll`, or makes the next one return at once.
  virtual void interrupt() = 0;

 protected:
  Reactor() = default;
};

}  // namespace strata::wire
