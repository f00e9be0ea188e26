#pragma once

#include "suites/options.h"

namespace strata::bench {

/// Case `overlap` of suite network: training on two hosts whose line takes about as long for the
/// gradients as backward takes to make them.
void run_overlap_case(const BenchOptions& options);

}  // namespace strata::bench
