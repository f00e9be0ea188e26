#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::detail {

/// Copies to memory that is not read soon, with non-temporal stores: they bypass the caches, and do
/// not read the old content first. Any size and alignment. Call `nontemporal_fence` before another
/// thread is informed of the bytes.
void nontemporal_copy(std::byte* target, const std::byte* source, int64_t bytes);
void nontemporal_fence();

}  // namespace strata::detail
