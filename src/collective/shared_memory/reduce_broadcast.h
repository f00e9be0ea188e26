#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/algorithms/reduction.h"

namespace strata::collective {

/// The tree over `sources` to each of `targets` (whole values; one may be a source), block by
/// block.
/// @param stream  The targets are so large that they leave the caches anyway.
void reduce_broadcast(const Reduction& reduction, std::span<const Operand> sources,
                      int64_t elements, std::span<std::byte* const> targets, bool stream);

}  // namespace strata::collective
