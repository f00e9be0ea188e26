#include "ps/tables/serial_executor.h"

#include <utility>

#include "core/log_limiter.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::ps {

namespace {

/// Tasks answer for their own errors. What is left is want of memory, which must neither end the
/// process nor leave the executor busy.
void call(const std::function<void()>& task) noexcept {
  try {
    task();
  } catch (...) {
    try {
      static strata::detail::LogLimiter limiter;
      if (const auto more = limiter.admit()) {
        STRATA_LOG(kError) << "[ps] a table's task failed: "
                           << Status::from_current_exception().message() << *more;
      }
    } catch (...) {  // no memory for the line either
    }
  }
}

}  // namespace

SerialExecutor::SerialExecutor(const std::string& name) : thread_(name, [this] { work(); }) {}

SerialExecutor::~SerialExecutor() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void SerialExecutor::run(std::function<void()> task, bool is_short) {
  MutexLock lock(mutex_);
  if (!is_short || busy_ || !turns_.empty()) {
    turns_.push_back({.task = std::move(task)});
    if (!busy_) wake_next();
    return;
  }
  take_turn(task);
}

void SerialExecutor::run_in_turn(const std::function<void()>& task) {
  MutexLock lock(mutex_);
  if (busy_ || !turns_.empty()) {
    ConditionVariable is_next;
    turns_.push_back({.task = {}, .caller = &is_next});
    is_next.wait(lock, [&]() STRATA_REQUIRES(mutex_) {
      return !busy_ && turns_.front().caller == &is_next;
    });
    turns_.pop_front();
  }
  take_turn(task);
}

/// Runs the task without the mutex, and wakes the next turn's thread.
void SerialExecutor::take_turn(const std::function<void()>& task) {
  busy_ = true;
  {
    const MutexUnlock unlocked(mutex_);
    call(task);
  }
  busy_ = false;
  wake_next();
}

/// Alone: others would only look and sleep again.
void SerialExecutor::wake_next() {
  if (turns_.empty()) return;
  ConditionVariable* const caller = turns_.front().caller;
  (caller != nullptr ? *caller : changed_).notify_one();
}

void SerialExecutor::work() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&]() STRATA_REQUIRES(mutex_) {
      return ending_ || (!busy_ && !turns_.empty() && turns_.front().task);
    });
    if (ending_) return;
    const std::function<void()> task = std::move(turns_.front().task);
    turns_.pop_front();
    take_turn(task);
  }
}

}  // namespace strata::ps
