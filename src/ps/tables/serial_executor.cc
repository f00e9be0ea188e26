#include "ps/tables/serial_executor.h"

#include <utility>

#include "core/log_limiter.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::ps {

namespace {

/// Tasks answer for their own errors. What is left is want of memory, which must neither end the
/// process nor leave the executor busy.
void perform(const std::function<void()>& task) noexcept {
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
  changed_.notify_all();
  thread_.join();
}

void SerialExecutor::run(std::function<void()> task, bool is_short) {
  MutexLock lock(mutex_);
  if (!is_short || busy_ || !tasks_.empty()) {
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    return;
  }
  busy_ = true;
  lock.unlock();
  perform(task);
  lock.lock();
  busy_ = false;
  if (!tasks_.empty() || ending_) changed_.notify_all();
}

void SerialExecutor::work() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [&]() STRATA_REQUIRES(mutex_) { return ending_ || (!busy_ && !tasks_.empty()); });
    if (ending_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    perform(task);
    lock.lock();
    busy_ = false;
  }
}

}  // namespace strata::ps
