#pragma once

#include <cstdint>

namespace strata::ps {

/// What has happened since a ClusterCoordinator was made.
struct CoordinatorCounts {
  uint64_t scheduled = 0;
  uint64_t finished = 0;   ///< functions that returned
  uint64_t failed = 0;     ///< functions that threw
  uint64_t cancelled = 0;  ///< before they ended
  uint64_t retried = 0;    ///< put back since their worker was lost
  uint64_t lost = 0;       ///< workers, each time
};

}  // namespace strata::ps
