#pragma once

#include <cstdint>

#include "kernels/layer_kernels.h"

namespace strata::kernels {

/// arrays.sums[r] = the sum of the values whose row is r, in their order, for r in [0, height): on
/// several threads if that is worth it. In embedding.cc.
void sum_rows(const RowSums& arrays, int64_t height);

}  // namespace strata::kernels
