#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace strata {

/// std::timed_mutex. The thread sanitizer of GCC 12 does not know what the standard one waits with,
/// and takes its unlock for an error.
/// Cost if no thread waits: two atomic exchanges. Threads: any; not recursive, not fair.
class TimedMutex {
 public:
  bool try_lock() { return !taken_.exchange(true); }

  void lock() {
    while (!try_lock_for(std::chrono::hours(1))) {
    }
  }

  template <typename Clock, typename Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    if (try_lock()) return true;
    std::unique_lock lock(mutex_);
    ++waiting_;
    const bool local = released_.wait_until(lock, deadline, [this] { return try_lock(); });
    --waiting_;
    return local;
  }

  template <typename Rep, typename Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& duration) {
    return try_lock_until(std::chrono::steady_clock::now() + duration);
  }

  void unlock() {
    taken_.exchange(false);
    if (waiting_ == 0) return;  // who comes now tries before it sleeps, and sees that it is free
    { const std::lock_guard lock(mutex_); }
    released_.notify_one();
  }

 private:
  std::atomic<bool> taken_{false};
  std::atomic<int> waiting_{0};
  std::mutex mutex_;
  std::condition_variable released_;
};

}  // namespace strata
