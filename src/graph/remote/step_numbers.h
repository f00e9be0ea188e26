#pragma once

#include <optional>
#include <vector>

#include "kernels/masked_recurrent.h"
#include "strata/core/export.h"

namespace strata::graph::remote {

/// The layer that the numbers of Work::kMaskedSteps describe; nothing: they describe none.
STRATA_API std::optional<kernels::MaskedLayer> masked_layer(const std::vector<double>& numbers);

}  // namespace strata::graph::remote
