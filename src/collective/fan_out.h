#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/reduction.h"

namespace strata::collective {

/// Copies to memory that nobody reads soon: past the caches, so that its old content is not read
/// first. Any size and alignment.
void stream_copy(std::byte* target, const std::byte* source, int64_t bytes);

/// The tree over `sources` to each of `targets` (whole values; one may be a source), block by
/// block.
/// @param stream  The targets are so large that they leave the caches anyway.
void reduce_to_all(const Reduction& reduction, std::span<const Operand> sources, int64_t elements,
                   std::span<std::byte* const> targets, bool stream);

}  // namespace strata::collective
