#pragma once

#include <cstdint>

#include "strata/data/example.h"
#include "strata/strategies/strategy.h"

namespace strata::tools {

/// Serves steps of Model::fit. @param rows  x `[n, 784]`, or `[n, 28, 28, 1]` for `images`; y
/// `[n]`.
void serve_fit(Strategy& strategy, const data::Example& rows, int64_t global_batch, bool images);

}  // namespace strata::tools
