#pragma once

#include "strata/core/export.h"
#include "strata/core/mutex.h"

namespace strata::collective {

/// A fixed number of permits to run. More replicas than cores share them: whoever waits for another
/// replica gives its permit back first, so eight replicas finish on two cores, or on one.
///
/// Threads: any. A wait ends when a permit is released, and holders release before every wait of
/// their own, so it is bounded by the holder's computation.
class STRATA_API Permits {
 public:
  explicit Permits(int count) : available_(count) {}

  void acquire();
  void release();

 private:
  Mutex mutex_;
  ConditionVariable released_;
  int available_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::collective
