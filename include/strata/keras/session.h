#pragma once

#include <cstdint>

#include "strata/core/export.h"

namespace strata::keras {

/// Seeds libtorch's generator, from which initializers without a seed of their own draw. The
/// replicas' draws in training depend on their strategy's seed.
/// Source: keras.utils.set_random_seed.
STRATA_API void set_random_seed(uint64_t seed);

/// Restarts the default names of layers: `dense`, `dense_1`, ... Existing layers keep their names.
/// Source: keras.utils.clear_session.
STRATA_API void clear_session();

}  // namespace strata::keras
