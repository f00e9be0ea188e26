#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strata/collective/reduce_op.h"
#include "strata/collective/schedule.h"

namespace strata::collective {

/// Runs the steps of `rank` on the ranks' buffers, each of `size` elements. Steps on one chunk that
/// follow each other run block by block, so that a copied element is still in the first-level
/// cache. `barrier` waits for all ranks. T: float, double, int32_t, int64_t.
template <typename T>
void execute(const Schedule& schedule, int rank, const std::vector<T*>& buffers, int64_t size,
             ReduceOp op, const std::function<void()>& barrier);

}  // namespace strata::collective
