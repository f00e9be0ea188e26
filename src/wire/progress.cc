#include "wire/progress.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "strata/core/log.h"
#include "strata/core/spin.h"

namespace strata::wire {
namespace {

// About what falling asleep and being woken costs.
constexpr std::chrono::microseconds kSpin(60);
// Spinning ends when so many more waits were long than short, and begins again as slowly: beside
// bulk transfers it would take the cores from the ranks that have something to do.
constexpr int kMostScore = 8;
// Handshakes have deadlines of their own, which are looked at when they are polled.
constexpr std::chrono::milliseconds kLongestSleep(500);

}  // namespace

void Progress::set(uint64_t key, std::weak_ptr<Pollable> pollable) {
  {
    const std::lock_guard lock(map_mutex_);
    map_[key] = std::move(pollable);
  }
  again(key);
}

void Progress::remove(uint64_t key) {
  const std::lock_guard lock(map_mutex_);
  map_.erase(key);
}

void Progress::again(uint64_t key) {
  {
    const std::lock_guard lock(map_mutex_);
    if (std::ranges::find(again_, key) == again_.end()) again_.push_back(key);
    has_again_.store(true);
  }
  if (asleep_.exchange(false)) reactor_->interrupt();
}

bool Progress::lead(Clock::time_point until) {
  ready_.clear();
  if (has_again_.load()) {
    const std::lock_guard lock(map_mutex_);
    ready_.swap(again_);
    has_again_.store(false);
  }
  reactor_->poll(ready_, ready_.empty() ? until : Clock::time_point::min());
  asleep_.store(false, std::memory_order_relaxed);
  bool worked = false;
  for (const uint64_t reported : ready_) {
    const uint64_t key = reported & ~Reactor::kHungUp;
    std::shared_ptr<Pollable> pollable;
    {
      const std::lock_guard lock(map_mutex_);
      const auto found = map_.find(key);
      if (found != map_.end()) pollable = found->second.lock();
    }
    if (pollable == nullptr) continue;
    bool more = false;
    try {
      worked |= pollable->ready(more, key != reported);
    } catch (...) {
      // A stranger that cannot be let in, for want of memory, say: the thread that happens to lead
      // waits for another.
      const Status status = Status::from_current_exception();
      if (const auto count = failures_.admit()) STRATA_LOG(kError) << status.message() << *count;
    }
    if (more) again(key);
  }
  return worked;
}

void Progress::leave(bool leading) {
  if (leading) led_.store(false);
  if (followers_.load() > 0 && !led_.load()) {
    const std::lock_guard lock(followers_mutex_);
    followers_wake_.notify_one();
  }
}

void Progress::notify() {
  events_.fetch_add(1);
  if (followers_.load() > 0) {
    const std::lock_guard lock(followers_mutex_);
    followers_wake_.notify_all();
  }
  if (asleep_.load() && asleep_.exchange(false)) reactor_->interrupt();
}

bool Progress::progress() {
  if (led_.exchange(true)) return false;  // somebody is at it
  const bool worked = lead(Clock::time_point::min());
  leave(true);
  return worked;
}

void Progress::count_wait(Clock::duration waited) {
  const int score = short_waits_.load(std::memory_order_relaxed);
  const int next = waited <= 2 * kSpin ? score + 1 : score - 1;
  short_waits_.store(std::clamp(next, -kMostScore, kMostScore), std::memory_order_relaxed);
}

bool Progress::wait_until(const std::function<bool()>& done, Deadline deadline,
                          const std::stop_token& stop) {
  if (done()) return true;
  const bool can_stop = stop.stop_possible();
  const auto wake = [this] { notify(); };
  std::optional<std::stop_callback<decltype(wake)>> waker;
  bool leading = false;
  // However it ends: done() may throw.
  struct Leaver {
    Progress& progress;
    const bool& leading;
    ~Leaver() { progress.leave(leading); }
  } leaver{*this, leading};
  Clock::time_point idle_since = Clock::time_point::min();  // not idle
  int worked_rounds = 0;
  while (true) {
    const uint64_t seen = events_.load();
    if (!leading) leading = !led_.exchange(true);
    const bool worked = leading && lead(Clock::time_point::min());
    if (worked && idle_since != Clock::time_point::min()) {
      count_wait(Clock::now() - idle_since);
      idle_since = Clock::time_point::min();
    }
    if (done()) return true;
    if (worked && ++worked_rounds % 16 != 0) continue;
    const auto now = Clock::now();
    if (now >= deadline.time() || (can_stop && stop.stop_requested())) return false;
    if (idle_since == Clock::time_point::min()) idle_since = now;
    if (now < idle_since + kSpin && short_waits_.load(std::memory_order_relaxed) >= 0) {
      if (leading) {
        sched_yield();
      } else {
        spin_until([&] { return events_.load() != seen || !led_.load(); }, kSpin);
      }
      continue;
    }
    if (can_stop && !waker) waker.emplace(stop, wake);
    const auto until = std::min(deadline.time(), now + kLongestSleep);
    if (leading) {
      asleep_.store(true);
      if (done() || (can_stop && stop.stop_requested())) {
        asleep_.store(false);
        continue;
      }
      if (lead(until)) {
        count_wait(Clock::now() - idle_since);
        idle_since = Clock::time_point::min();
      }
    } else {
      followers_.fetch_add(1);
      {
        std::unique_lock lock(followers_mutex_);
        followers_wake_.wait_until(lock, until,
                                   [&] { return events_.load() != seen || !led_.load(); });
      }
      followers_.fetch_sub(1);
    }
  }
}

}  // namespace strata::wire
