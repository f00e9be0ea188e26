#include "collective/in_process/run_slots.h"

namespace strata::collective {

void RunSlots::acquire() {
  MutexLock lock(mutex_);
  released_.wait(lock, [this]() STRATA_REQUIRES(mutex_) { return available_ > 0; });
  --available_;
}

void RunSlots::release() {
  {
    MutexLock lock(mutex_);
    ++available_;
  }
  released_.notify_one();
}

}  // namespace strata::collective
