#pragma once

#include <deque>
#include <functional>
#include <string>

#include "core/mutex.h"
#include "core/thread.h"

namespace strata::ps {

/// Runs tasks one at a time, in the order in which they come: on a thread of its own, or, where
/// that is idle and the task is short, at once on the caller's, which saves waking it. What a task
/// throws is logged. What has not begun when the executor is destroyed is dropped.
class SerialExecutor {
 public:
  explicit SerialExecutor(const std::string& name);
  ~SerialExecutor();
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  void run(std::function<void()> task, bool is_short);

 private:
  void work();

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::function<void()>> tasks_ STRATA_GUARDED_BY(mutex_);
  bool busy_ STRATA_GUARDED_BY(mutex_) = false;
  bool ending_ STRATA_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace strata::ps
