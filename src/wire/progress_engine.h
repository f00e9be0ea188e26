#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "core/adaptive_spin.h"
#include "core/log_limiter.h"
#include "core/mutex.h"
#include "strata/core/error.h"
#include "strata/wire/deadline.h"
#include "wire/reactor.h"

namespace strata::wire {

/// What a reactor's key refers to: a session, a handshake or a listener.
class Pollable {
 public:
  virtual ~Pollable() = default;
  /// Performs all work that does not block. @return whether it did any.
  /// @param reschedule  Set to true to be called again although the reactor reports nothing.
  /// @param hung_up  As Reactor::kHungUp.
  /// Threads: the leader's.
  virtual bool ready(bool& reschedule, bool hung_up) = 0;
};

/// Caller-driven progress, with leader and followers: there is no progress thread. Of the threads
/// that wait on a transport, one becomes the leader, polls the reactor and moves bytes for all of
/// them; the followers sleep until an operation completes or the leader returns.
/// Threads: any.
class ProgressEngine {
 public:
  using Clock = Deadline::Clock;

  explicit ProgressEngine(std::unique_ptr<Reactor> reactor) : reactor_(std::move(reactor)) {}

  Reactor& reactor() { return *reactor_; }

  /// A new key. The reactor's reports for it go to the object given to `set`.
  uint64_t new_key() { return next_key_.fetch_add(1, std::memory_order_relaxed); }
  void set(uint64_t key, std::weak_ptr<Pollable> pollable);
  void remove(uint64_t key);
  /// Calls `ready` of `key` in the next round, although the reactor reports nothing.
  void reschedule(uint64_t key);

  /// As Transport::wait_until.
  bool wait_until(const std::function<bool()>& done, Deadline deadline,
                  const std::stop_token& stop);
  /// As Transport::progress.
  bool progress();

  /// An operation has completed or a message has arrived: waiting threads test their conditions.
  void notify() STRATA_EXCLUDES(followers_mutex_);

 private:
  // One round of the leader's. @return whether any work was done.
  bool poll_as_leader(Clock::time_point until);
  // Called by a thread that stops waiting: a leader hands over to a follower.
  void stop_waiting(bool leading) STRATA_EXCLUDES(followers_mutex_);

  std::unique_ptr<Reactor> reactor_;
  std::atomic<uint64_t> next_key_{1};

  strata::detail::LogLimiter failures_;
  Mutex map_mutex_;
  std::unordered_map<uint64_t, std::weak_ptr<Pollable>> map_ STRATA_GUARDED_BY(map_mutex_);
  std::vector<uint64_t> rescheduled_ STRATA_GUARDED_BY(map_mutex_);
  std::atomic<bool> has_rescheduled_{false};

  std::atomic<bool> leader_active_{false};
  std::atomic<bool> leader_asleep_{false};  // or about to block in poll
  std::atomic<uint64_t> events_{0};
  std::atomic<int> followers_{0};
  Mutex followers_mutex_;  // of those that fall asleep
  ConditionVariable followers_wake_;

  std::vector<uint64_t> ready_;  // the leader's
  AdaptiveSpin spin_;
};

}  // namespace strata::wire
