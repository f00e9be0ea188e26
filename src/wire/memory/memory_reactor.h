#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "wire/reactor.h"

namespace strata::wire {

/// Reports keys at the time for which they were announced. Threads: any.
class MemoryReactor final : public Reactor {
 public:
  /// What streams hold, which may outlive the reactor.
  class Shared {
   public:
    /// `key` is to be reported at `due`.
    void announce(uint64_t key, TimePoint due);
    void poll(std::vector<uint64_t>& ready, TimePoint until);
    void interrupt();

   private:
    Mutex mutex_;
    ConditionVariable wake_;
    std::multimap<TimePoint, uint64_t> due_ STRATA_GUARDED_BY(mutex_);
    std::atomic<bool> any_{false};
    bool interrupted_ STRATA_GUARDED_BY(mutex_) = false;
  };

  const std::shared_ptr<Shared>& shared() const { return shared_; }
  void poll(std::vector<uint64_t>& ready, TimePoint until) override { shared_->poll(ready, until); }
  void interrupt() override { shared_->interrupt(); }

 private:
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace strata::wire
