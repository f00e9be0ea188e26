#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::detail {

/// Copies to memory that nobody reads soon: past the caches, so that its old content is not read
/// first. Any size and alignment. `stream_fence` must follow before another thread is told of it.
void stream_copy(std::byte* target, const std::byte* source, int64_t bytes);
void stream_fence();

}  // namespace strata::detail
