#pragma once

#include <string_view>

#include "collective/communicator.h"
#include "strata/core/error.h"

namespace strata::collective {

/// `status` in the words that all back ends have for a call that failed: "[collective]
/// all_reduce(SUM) of 1000 Float, plan 1a2 (id 3, gradients of adam) on rank 0 of 2: ...".
/// @param call  As `describe_call` says it.
Status failed_call(const Status& status, std::string_view call, const CallOptions& options,
                   int rank, int ranks);

}  // namespace strata::collective
