#include "strata/collective/run_slots.h"

namespace strata::collective {

void RunSlots::acquire() {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [this] { return available_ > 0; });
  --available_;
}

void RunSlots::release() {
  {
    std::lock_guard lock(mutex_);
    ++available_;
  }
  released_.notify_one();
}

}  // namespace strata::collective
