#pragma once

#include <cstdint>

#include "strata/core/export.h"

namespace strata::keras {

/// Seeds what initializers without a seed of their own draw from: libtorch's generator. What
/// replicas draw while they train follows from their strategy's seed.
/// Source: keras.utils.set_random_seed.
STRATA_API void set_random_seed(uint64_t seed);

/// Names of layers that have none start again: `dense`, `dense_1`, ... Layers that there are keep
/// theirs. Source: keras.utils.clear_session.
STRATA_API void clear_session();

}  // namespace strata::keras
