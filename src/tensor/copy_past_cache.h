#pragma once

#include <cstddef>

namespace strata::tensor {

/// memcpy of what nobody reads before it would have left the caches anyway: it goes to memory at
/// once, and what it overwrites is not read first.
void copy_past_cache(void* to, const void* from, size_t bytes);

}  // namespace strata::tensor
