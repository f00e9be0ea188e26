#pragma once

#include <string>
#include <vector>

#include "collective/cards/sum_timing.h"

namespace strata::tools {

/// What `strata devices --measure` prints: a line for each way and size, with the time of a call, the
/// bytes of a value over it, and, where NCCL has added in any order, how much longer this way takes.
/// @param devices  "gpu:0", ...
std::string sums_report(const std::vector<std::string>& devices,
                        const std::vector<collective::SumTiming>& timings);

}  // namespace strata::tools
