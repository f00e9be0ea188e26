#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

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
    std::mutex mutex_;
    std::condition_variable wake_;
    std::multimap<TimePoint, uint64_t> due_;
    std::atomic<bool> any_{false};
    bool interrupted_ = false;
  };

  const std::shared_ptr<Shared>& shared() const { return shared_; }
  void poll(std::vector<uint64_t>& ready, TimePoint until) override { shared_->poll(ready, until); }
  void interrupt() override { shared_->interrupt(); }

 private:
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace strata::wire
