#include "strata/collective/permits.h"

namespace strata::collective {

void Permits::acquire() {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [this] { return available_ > 0; });
  --available_;
}

void Permits::release() {
  {
    std::lock_guard lock(mutex_);
    ++available_;
  }
  released_.notify_one();
}

}  // namespace strata::collective
