#include "wire/progress_engine.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/spin.h"
#include "strata/core/log.h"

namespace strata::wire {
namespace {

// Handshakes have deadlines of their own, which are checked when they are polled.
constexpr std::chrono::milliseconds kLongestSleep(500);

}  // namespace

void ProgressEngine::set(uint64_t key, std::weak_ptr<Pollable> pollable) {
  {
    const MutexLock lock(map_mutex_);
    map_[key] = std::move(pollable);
  }
  reschedule(key);
}

void ProgressEngine::remove(uint64_t key) {
  const MutexLock lock(map_mutex_);
  map_.erase(key);
}

void ProgressEngine::reschedule(uint64_t key) {
  {
    const MutexLock lock(map_mutex_);
    if (std::ranges::find(rescheduled_, key) == rescheduled_.end()) rescheduled_.push_back(key);
    has_rescheduled_.store(true);
  }
  if (leader_asleep_.exchange(false)) reactor_->interrupt();
}

bool ProgressEngine::poll_as_leader(Clock::time_point until) {
  ready_.clear();
  if (has_rescheduled_.load()) {
    const MutexLock lock(map_mutex_);
    ready_.swap(rescheduled_);
    has_rescheduled_.store(false);
  }
  reactor_->poll(ready_, ready_.empty() ? until : Clock::time_point::min());
  leader_asleep_.store(false, std::memory_order_relaxed);
  bool worked = false;
  for (const uint64_t reported : ready_) {
    const uint64_t key = reported & ~Reactor::kHungUp;
    std::shared_ptr<Pollable> pollable;
    {
      const MutexLock lock(map_mutex_);
      const auto found = map_.find(key);
      if (found != map_.end()) pollable = found->second.lock();
    }
    if (pollable == nullptr) continue;
    bool more = false;
    try {
      worked |= pollable->ready(more, key != reported);
    } catch (...) {
      // For example no memory for another peer's handshake: that is not the failure of the thread
      // that happens to lead.
      const Status status = Status::from_current_exception();
      if (const auto count = failures_.admit()) STRATA_LOG(kError) << status.message() << *count;
    }
    if (more) reschedule(key);
  }
  return worked;
}

void ProgressEngine::stop_waiting(bool leading) {
  if (leading) leader_active_.store(false);
  if (followers_.load() > 0 && !leader_active_.load()) {
    const MutexLock lock(followers_mutex_);
    followers_wake_.notify_one();
  }
}

void ProgressEngine::notify() {
  events_.fetch_add(1);
  if (followers_.load() > 0) {
    const MutexLock lock(followers_mutex_);
    followers_wake_.notify_all();
  }
  if (leader_asleep_.load() && leader_asleep_.exchange(false)) reactor_->interrupt();
}

bool ProgressEngine::progress() {
  if (leader_active_.exchange(true)) return false;  // another thread leads
  const bool worked = poll_as_leader(Clock::time_point::min());
  stop_waiting(true);
  return worked;
}

bool ProgressEngine::wait_until(const std::function<bool()>& done, Deadline deadline,
                                const std::stop_token& stop) {
  if (done()) return true;
  const bool can_stop = stop.stop_possible();
  const auto wake = [this] { notify(); };
  std::optional<std::stop_callback<decltype(wake)>> waker;
  bool leading = false;
  // On every path: done() may throw.
  struct Leaver {
    ProgressEngine& progress;
    const bool& leading;
    ~Leaver() { progress.stop_waiting(leading); }
  } leaver{*this, leading};
  Clock::time_point idle_since = Clock::time_point::min();  // not idle
  int worked_rounds = 0;
  while (true) {
    const uint64_t seen = events_.load();
    if (!leading) leading = !leader_active_.exchange(true);
    const bool worked = leading && poll_as_leader(Clock::time_point::min());
    if (worked && idle_since != Clock::time_point::min()) {
      spin_.count(Clock::now() - idle_since);
      idle_since = Clock::time_point::min();
    }
    if (done()) return true;
    if (worked && ++worked_rounds % 16 != 0) continue;
    const auto now = Clock::now();
    if (now >= deadline.time() || (can_stop && stop.stop_requested())) return false;
    if (idle_since == Clock::time_point::min()) idle_since = now;
    if (now < idle_since + AdaptiveSpin::kLimit && spin_.pays()) {
      if (leading) {
        sched_yield();
      } else {
        spin_until([&] { return events_.load() != seen || !leader_active_.load(); },
                   AdaptiveSpin::kLimit);
      }
      continue;
    }
    if (can_stop && !waker) waker.emplace(stop, wake);
    const auto until = std::min(deadline.time(), now + kLongestSleep);
    if (leading) {
      leader_asleep_.store(true);
      if (done() || (can_stop && stop.stop_requested())) {
        leader_asleep_.store(false);
        continue;
      }
      if (poll_as_leader(until)) {
        spin_.count(Clock::now() - idle_since);
        idle_since = Clock::time_point::min();
      }
    } else {
      followers_.fetch_add(1);
      {
        MutexLock lock(followers_mutex_);
        followers_wake_.wait_until(
            lock, until, [&] { return events_.load() != seen || !leader_active_.load(); });
      }
      followers_.fetch_sub(1);
    }
  }
}

}  // namespace strata::wire
