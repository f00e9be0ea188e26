#include "checkpoint/background.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "strata/core/log.h"

namespace strata::checkpoint {
namespace {

void lower_priority() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  (void)::setpriority(PRIO_PROCESS, thread, 19);
  const sched_param none = {};
  (void)::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);
}

std::chrono::nanoseconds thread_cpu_time() {
  timespec time = {};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (!status_.ok()) {
    STRATA_LOG(kError) << "[checkpoint] the last asynchronous save failed: " << status_.message();
  }
}

bool Background::busy() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  wait_for_the_end(lock);
  const Status status = std::exchange(status_, {});
  lock.unlock();
  status.throw_if_error();
}

void Background::wait_quietly() {
  std::unique_lock lock(mutex_);
  wait_for_the_end(lock);
}

void Background::wait_for_the_end(std::unique_lock<std::mutex>& lock) {
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !running_; });  // ends with the job: the disk answers or fails
  --waiting_;
}

void Background::throttle(double share) {
  const std::chrono::nanoseconds now = thread_cpu_time();
  const auto rest =
      std::chrono::duration_cast<std::chrono::nanoseconds>((now - worked_) * (1 / share - 1));
  worked_ = now;
  if (share >= 1) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, rest, [&] { return waiting_ > 0 || stopping_; });
}

void Background::start(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    STRATA_DCHECK(!running_);
    job_ = std::move(job);
    running_ = true;
  }
  if (!thread_.joinable()) thread_ = Thread("checkpoint", [this] { serve(); });
  changed_.notify_all();
}

void Background::serve() {
  lower_priority();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return job_ || stopping_; });  // ends with the owner
    if (!job_) return;
    const std::function<void()> job = std::exchange(job_, nullptr);
    lock.unlock();
    worked_ = thread_cpu_time();
    Status status;
    try {
      job();
    } catch (...) {
      status = Status::from_current_exception();
    }
    lock.lock();
    status_ = status;
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace strata::checkpoint
