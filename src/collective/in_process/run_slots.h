#pragma once

#include "core/mutex.h"
#include "strata/core/export.h"

namespace strata::collective {

/// A counting semaphore of run slots, for more replicas than cores. A replica gives its slot back
/// before it waits for another one, so that eight replicas finish on two cores, or on one.
///
/// Threads: any. A wait ends when a slot is released, and holders release before every wait of
/// their own, so it is bounded by the holder's computation.
class STRATA_API RunSlots {
 public:
  explicit RunSlots(int count) : available_(count) {}

  void acquire();
  void release();

 private:
  Mutex mutex_;
  ConditionVariable released_;
  int available_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::collective
