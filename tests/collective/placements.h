#pragma once

#include <vector>

#include "strata/collective/algorithms.h"

namespace strata::collective {

/// A replica a rank.
inline Placement one_each(int ranks, int ranks_per_host = 1) {
  return Placement::blocks(std::vector<int>(static_cast<size_t>(ranks), 1), ranks_per_host);
}

}  // namespace strata::collective
