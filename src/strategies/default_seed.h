#pragma once

#include <cstdint>

namespace strata::detail {

/// What torch::manual_seed set, so that it also governs the replicas' random streams.
uint64_t default_seed();

}  // namespace strata::detail
