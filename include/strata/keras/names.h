#pragma once

#include "strata/core/export.h"

namespace strata::keras {

/// Names of layers that have none start again: `dense`, `dense_1`, ... Layers that there are keep
/// theirs. Source: keras.utils.clear_session.
STRATA_API void clear_session();

}  // namespace strata::keras
