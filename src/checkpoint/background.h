#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "core/mutex.h"
#include "core/thread.h"
#include "strata/core/error.h"

namespace strata::checkpoint {

/// One job at a time on a thread of the lowest priority: it takes the processor's idle time, and
/// what the training leaves it, about a 70th.
class Background {
 public:
  Background() = default;
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  bool busy() const;
  /// Returns when no job is left. @throws what the last one threw, once.
  void wait();
  /// The same, leaving an error for `wait`.
  void wait_quietly();
  /// @pre not busy.
  void start(std::function<void()> job);

  /// For the job, now and then: rests until it has had no more than `share` of a core's time, or
  /// a thread waits for its end.
  void throttle(double share);

 private:
  void serve();
  void wait_for_the_end(MutexLock& lock) STRATA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::function<void()> job_ STRATA_GUARDED_BY(mutex_);
  bool running_ STRATA_GUARDED_BY(mutex_) = false;
  bool stopping_ STRATA_GUARDED_BY(mutex_) = false;
  int waiting_ STRATA_GUARDED_BY(mutex_) = 0;  // callers who want the job to end
  std::chrono::nanoseconds worked_{0};         // processor time when the job last gave way
  // Of jobs whose end was not waited for.
  Status status_ STRATA_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace strata::checkpoint
