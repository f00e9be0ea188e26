#pragma once

#include <deque>
#include <functional>
#include <string>

#include "core/mutex.h"
#include "core/thread.h"

namespace strata::ps {

/// Runs tasks one at a time, in the order in which they come: on a thread of its own, or, where
/// that is idle and the task is short, at once on the caller's, which saves waking it. What a task
/// throws is logged. What has not begun when the executor is destroyed is dropped; no thread may
/// wait in `run_in_turn` then.
class SerialExecutor {
 public:
  explicit SerialExecutor(const std::string& name);
  ~SerialExecutor();
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  void run(std::function<void()> task, bool is_short);
  /// On the caller's thread, when its turn has come.
  void run_in_turn(const std::function<void()>& task);

 private:
  struct Turn {
    std::function<void()> task;           // empty: its caller runs it
    ConditionVariable* caller = nullptr;  // of `run_in_turn`
  };

  void work();
  void take_turn(const std::function<void()>& task) STRATA_REQUIRES(mutex_);
  void wake_next() STRATA_REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable changed_;                         // the thread's
  std::deque<Turn> turns_ STRATA_GUARDED_BY(mutex_);  // in the order in which they came
  bool busy_ STRATA_GUARDED_BY(mutex_) = false;
  bool ending_ STRATA_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace strata::ps
