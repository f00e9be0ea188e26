#pragma once

#include <algorithm>
#include <cstdint>

namespace strata::collective {

/// The size of a bucket where gradients of `total` bytes are reduced beside backward. Backward hides all
/// buckets but the last, so that should be small; each costs some latencies.
inline int64_t overlapped_pack_bytes(int64_t total) {
  return std::clamp(total / 16, int64_t{256} << 10, int64_t{25} << 20);
}

}  // namespace strata::collective
