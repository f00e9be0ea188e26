#include "wire/memory/memory_reactor.h"

#include <algorithm>

namespace strata::wire {

void MemoryReactor::Shared::announce(uint64_t key, TimePoint due) {
  const MutexLock lock(mutex_);
  due_.emplace(due, key);
  any_.store(true, std::memory_order_release);
  wake_.notify_one();
}

void MemoryReactor::Shared::interrupt() {
  const MutexLock lock(mutex_);
  interrupted_ = true;
  wake_.notify_one();
}

void MemoryReactor::Shared::poll(std::vector<uint64_t>& ready, TimePoint until) {
  const bool may_sleep = until != TimePoint::min();
  if (!may_sleep && !any_.load(std::memory_order_acquire)) return;
  MutexLock lock(mutex_);
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    while (!due_.empty() && due_.begin()->first <= now) {
      const uint64_t key = due_.begin()->second;
      if (std::ranges::find(ready, key) == ready.end()) ready.push_back(key);
      due_.erase(due_.begin());
    }
    if (due_.empty()) any_.store(false, std::memory_order_release);
    if (!may_sleep || !ready.empty() || interrupted_ || now >= until) break;
    wake_.wait_until(lock, due_.empty() ? until : std::min(until, due_.begin()->first));
  }
  interrupted_ = false;
}

}  // namespace strata::wire
