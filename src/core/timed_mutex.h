#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "core/mutex.h"
#include "core/thread_annotations.h"

namespace strata {

/// std::timed_mutex. The thread sanitizer of GCC 12 does not know what the standard one waits with,
/// and takes its unlock for an error.
/// Cost if no thread waits: two atomic exchanges. Threads: any; not recursive, not fair.
class STRATA_CAPABILITY("mutex") TimedMutex {
 public:
  [[nodiscard]] bool try_lock() STRATA_TRY_ACQUIRE(true) { return !taken_.exchange(true); }

  void lock() STRATA_ACQUIRE() {
    while (!try_lock_for(std::chrono::hours(1))) {
    }
  }

  template <typename Clock, typename Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline)
      STRATA_TRY_ACQUIRE(true) {
    if (try_lock()) return true;
    std::unique_lock lock(mutex_);
    ++waiting_;
    const bool locked = released_.wait_until(lock, deadline, [this] { return try_lock(); });
    --waiting_;
    return locked;
  }

  template <typename Rep, typename Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& duration)
      STRATA_TRY_ACQUIRE(true) {
    return try_lock_until(std::chrono::steady_clock::now() + duration);
  }

  void unlock() STRATA_RELEASE() {
    taken_.exchange(false);
    if (waiting_ == 0) return;  // who comes now tries before it sleeps, and sees that it is free
    { const std::lock_guard lock(mutex_); }
    released_.notify_one();
  }

 private:
  std::atomic<bool> taken_{false};
  std::atomic<int> waiting_{0};
  std::mutex mutex_;  // of those that wait
  std::condition_variable released_;
};

/// Holds, while it lives, a TimedMutex that the caller has locked. Threads: one.
class STRATA_SCOPED_CAPABILITY TimedMutexLock {
 public:
  [[nodiscard]] TimedMutexLock(TimedMutex& mutex, std::adopt_lock_t) STRATA_REQUIRES(mutex)
      : mutex_(mutex) {}
  ~TimedMutexLock() STRATA_RELEASE() { mutex_.unlock(); }
  TimedMutexLock(const TimedMutexLock&) = delete;
  TimedMutexLock& operator=(const TimedMutexLock&) = delete;

 private:
  TimedMutex& mutex_;
};

}  // namespace strata
