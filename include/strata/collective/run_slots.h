#pragma once

#include <condition_variable>
#include <mutex>

#include "strata/core/export.h"

namespace strata::collective {

/// A fixed number of permits to run. More replicas than cores share them: whoever waits for another
/// replica gives its permit back first, so eight replicas finish on two cores, or on one.
///
/// Threads: any. A wait ends when a permit is released, and holders release before every wait of
/// their own, so it is bounded by the holder's computation.
class STRATA_API RunSlots {
 public:
  explicit RunSlots(int count) : available_(count) {}

  void acquire();
  void release();

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  int available_;  // guarded by mutex_
};

}  // namespace strata::collective
