#pragma once

#include <cstdint>

namespace strata::ps {

/// Counters since a ClusterCoordinator was made.
struct CoordinatorCounts {
  uint64_t scheduled = 0;
  uint64_t finished = 0;   ///< functions that returned
  uint64_t failed = 0;     ///< functions that threw
  uint64_t cancelled = 0;  ///< before they ended
  uint64_t retried = 0;    ///< requeued since their worker was lost
  uint64_t lost = 0;       ///< lost workers, each time
};

}  // namespace strata::ps
