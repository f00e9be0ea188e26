#include "ps/coordinator/progress_thread.h"

#include <utility>

namespace strata::ps {
namespace {

// Others wait and leave and wait again: for so long it stays out of their way.
constexpr std::chrono::milliseconds kPatience{1};
constexpr int kPatientRounds = 20;

}  // namespace

ProgressThread::ProgressThread(std::string name, wire::Transport& transport,
                               std::function<void()> work)
    : transport_(transport), work_(std::move(work)) {
  thread_ = Thread(std::move(name), [this](std::stop_token stop) { run(stop); });
}

void ProgressThread::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void ProgressThread::enter() {
  waiting_.fetch_add(1);
  waits_.fetch_add(1);
  if (leading_.load()) transport_.wake();  // its done() holds now
}

void ProgressThread::leave() {
  if (waiting_.fetch_sub(1) != 1 || !sleeping_.load()) return;
  const MutexLock lock(mutex_);
  wake_.notify_one();
}

bool ProgressThread::wait(const std::function<bool()>& done, wire::Deadline deadline,
                          std::stop_token stop) {
  struct Waiting {
    explicit Waiting(ProgressThread& progress_thread) : progress_thread(progress_thread) {
      progress_thread.enter();
    }
    ~Waiting() { progress_thread.leave(); }
    ProgressThread& progress_thread;
  } waiting(*this);
  const std::function<bool()> work_and_look = [&] {
    work_();
    return done();
  };
  while (true) {
    const auto next = wire::Deadline::sooner(deadline, wire::Deadline::after(kTick));
    if (transport_.wait_until(work_and_look, next, stop)) return true;
    if (deadline.passed() || stop.stop_requested()) return false;
  }
}

void ProgressThread::run(const std::stop_token& stop) {
  const std::function<bool()> work_and_look = [&] {
    work_();
    return waiting_.load() > 0;
  };
  uint64_t seen = 0;
  int rounds = 0;  // in which a thread waited all the time
  while (!stop.stop_requested()) {
    const uint64_t now = waits_.load();
    const bool any_waiting = waiting_.load() > 0;
    if (!any_waiting && now == seen) {  // no thread has waited since the last look
      rounds = 0;
      leading_.store(true);
      (void)transport_.wait_until(work_and_look, wire::Deadline::after(kTick), stop);
      leading_.store(false);
      continue;
    }
    rounds = any_waiting && now == seen ? rounds + 1 : 0;
    seen = now;
    MutexLock lock(mutex_);
    if (rounds < kPatientRounds) {
      (void)wake_.wait_for(lock, stop, kPatience, [] { return false; });
      continue;
    }
    // They wait for something that takes long; and do work.
    sleeping_.store(true);
    (void)wake_.wait_for(lock, stop, 10 * kTick, [&] { return waiting_.load() == 0; });
    sleeping_.store(false);
  }
}

}  // namespace strata::ps
