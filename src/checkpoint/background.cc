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
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (!status_.ok()) {
    STRATA_LOG(kError) << "[checkpoint] the last asynchronous save failed: " << status_.message();
  }
}

bool Background::busy() const {
  const MutexLock lock(mutex_);
  return running_;
}

void Background::wait() {
  MutexLock lock(mutex_);
  wait_for_the_end(lock);
  const Status status = std::exchange(status_, {});
  lock.unlock();
  status.throw_if_error();
}

void Background::wait_quietly() {
  MutexLock lock(mutex_);
  wait_for_the_end(lock);
}

void Background::wait_for_the_end(MutexLock& lock) {
  ++waiting_;
  changed_.notify_all();
  // Ends with the job: the disk answers or fails.
  changed_.wait(lock, [&]() STRATA_REQUIRES(mutex_) { return !running_; });
  --waiting_;
}

void Background::throttle(double share) {
  const std::chrono::nanoseconds now = thread_cpu_time();
  const auto rest =
      std::chrono::duration_cast<std::chrono::nanoseconds>((now - worked_) * (1 / share - 1));
  worked_ = now;
  if (share >= 1) return;
  MutexLock lock(mutex_);
  changed_.wait_for(lock, rest,
                    [&]() STRATA_REQUIRES(mutex_) { return waiting_ > 0 || stopping_; });
}

void Background::start(std::function<void()> job) {
  {
    const MutexLock lock(mutex_);
    STRATA_DCHECK(!running_);
    job_ = std::move(job);
    running_ = true;
  }
  if (!thread_.joinable()) thread_ = Thread("checkpoint", [this] { serve(); });
  changed_.notify_all();
}

void Background::serve() {
  lower_priority();
  MutexLock lock(mutex_);
  while (true) {
    // Ends with the owner.
    changed_.wait(lock, [&]() STRATA_REQUIRES(mutex_) { return job_ || stopping_; });
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
