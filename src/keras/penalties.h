#pragma once

#include <vector>

#include "strata/keras/layer_impl.h"

namespace strata::keras::detail {

/// The regularizers' penalties of those weights that are trained, on this replica; none: undefined.
at::Tensor penalties_of(const std::vector<Weight>& weights);

}  // namespace strata::keras::detail
