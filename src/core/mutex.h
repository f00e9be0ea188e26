#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/thread_annotations.h"

namespace strata {

/// A std::mutex for clang's thread safety analysis.
class STRATA_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() STRATA_ACQUIRE() { mutex_.lock(); }
  void unlock() STRATA_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() STRATA_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  /// Tells clang that the caller holds it, where clang cannot see that.
  void assume_held() const STRATA_ASSERT_CAPABILITY(this) {}

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a mutex during its lifetime, except between `unlock` and `lock`. Threads: one.
class STRATA_SCOPED_CAPABILITY MutexLock {
 public:
  [[nodiscard]] explicit MutexLock(Mutex& mutex) STRATA_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() STRATA_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() STRATA_ACQUIRE() { lock_.lock(); }
  void unlock() STRATA_RELEASE() { lock_.unlock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

/// Unlocks a mutex that the caller holds, and locks it again in its destructor.
class STRATA_SCOPED_CAPABILITY MutexUnlock {
 public:
  [[nodiscard]] explicit MutexUnlock(Mutex& mutex) STRATA_RELEASE(mutex) : mutex_(mutex) {
    mutex_.unlock();
  }
  // Not checked: to clang a scope's end undoes its beginning by a release.
  ~MutexUnlock() STRATA_RELEASE() STRATA_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

/// std::condition_variable for a MutexLock. Where a wait ends with a stop token, use
/// std::condition_variable_any with a MutexLock. Threads: any.
class ConditionVariable {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  template <typename Predicate>
  void wait(MutexLock& lock, Predicate done) {
    condition_.wait(lock.lock_, std::move(done));
  }

  template <typename Clock, typename Duration>
  std::cv_status wait_until(MutexLock& lock,
                            const std::chrono::time_point<Clock, Duration>& deadline) {
    return condition_.wait_until(lock.lock_, deadline);
  }
  /// @return the last value of `done()`.
  template <typename Clock, typename Duration, typename Predicate>
  bool wait_until(MutexLock& lock, const std::chrono::time_point<Clock, Duration>& deadline,
                  Predicate done) {
    return condition_.wait_until(lock.lock_, deadline, std::move(done));
  }

  template <typename Rep, typename Period>
  std::cv_status wait_for(MutexLock& lock, const std::chrono::duration<Rep, Period>& duration) {
    return condition_.wait_for(lock.lock_, duration);
  }
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(MutexLock& lock, const std::chrono::duration<Rep, Period>& duration,
                Predicate done) {
    return condition_.wait_for(lock.lock_, duration, std::move(done));
  }

 private:
  std::condition_variable condition_;
};

}  // namespace strata
