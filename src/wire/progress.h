#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "core/log_limiter.h"
#include "strata/core/error.h"
#include "strata/wire/deadline.h"
#include "wire/reactor.h"

namespace strata::wire {

/// What a reactor's keys stand for: a session, a handshake, a listener.
class Pollable {
 public:
  virtual ~Pollable() = default;
  /// Does what can be done without waiting. @return whether it did anything; `again` if there is
  /// more to do, of which the reactor will not tell. `hung_up`: as Reactor::kHungUp.
  /// Threads: the one that leads.
  virtual bool ready(bool& again, bool hung_up) = 0;
};

/// How the threads that wait on a transport share the work: one leads, which polls the reactor and
/// moves bytes for all; the others sleep until something has ended, or until the leader leaves.
/// Threads: any.
class Progress {
 public:
  using Clock = Deadline::Clock;

  explicit Progress(std::unique_ptr<Reactor> reactor) : reactor_(std::move(reactor)) {}

  Reactor& reactor() { return *reactor_; }

  /// A new key. Reports for it go to whom `set` names.
  uint64_t new_key() { return next_key_.fetch_add(1, std::memory_order_relaxed); }
  void set(uint64_t key, std::weak_ptr<Pollable> pollable);
  void remove(uint64_t key);
  /// The reactor will not tell, but there is something to do.
  void again(uint64_t key);

  /// As Transport::wait_until.
  bool wait_until(const std::function<bool()>& done, Deadline deadline,
                  const std::stop_token& stop);
  /// As Transport::progress.
  bool progress();

  /// Something has ended or arrived: whoever waits looks again.
  void notify();

 private:
  // Leads one round. @return whether anything was done.
  bool lead(Clock::time_point until);
  void count_wait(Clock::duration waited);
  // Of a thread that stops waiting.
  void leave(bool leading);

  std::unique_ptr<Reactor> reactor_;
  std::atomic<uint64_t> next_key_{1};

  strata::detail::LogLimiter failures_;
  std::mutex map_mutex_;
  std::unordered_map<uint64_t, std::weak_ptr<Pollable>> map_;
  std::vector<uint64_t> again_;
  std::atomic<bool> has_again_{false};

  std::atomic<bool> led_{false};
  std::atomic<bool> asleep_{false};  // the leader is, or is about to be
  std::atomic<uint64_t> events_{0};
  std::atomic<int> followers_{0};
  std::mutex followers_mutex_;
  std::condition_variable followers_wake_;

  std::vector<uint64_t> ready_;  // the leader's
  // Short waits against long ones, the last few: whether spinning is worth it.
  std::atomic<int> short_waits_{0};
};

}  // namespace strata::wire
