#pragma once

#include <c10/core/ScalarType.h>
#include <nccl.h>

#include <functional>
#include <string_view>

#include "strata/collective/reduce_op.h"

namespace strata::collective::nccl {

/// @param caller  For the message: "nccl_all_reduce".
/// @throws Error  kInvalidArgument: NCCL has no such type.
ncclDataType_t data_type(at::ScalarType dtype, std::string_view caller);

ncclRedOp_t reduction(ReduceOp op);

/// @param call  "ncclAllReduce".
/// @throws Error  kUnavailable: `result` is an error; has NCCL's account of it. ncclInProgress is one here.
void check(ncclResult_t result, std::string_view call, std::string_view caller,
           ncclComm_t comm = nullptr);

/// Makes calls between ncclGroupStart and ncclGroupEnd, which closes the group where one throws, too: else
/// it would take up this thread's next calls.
/// @return What ncclGroupEnd says.
ncclResult_t call_in_group(std::string_view caller, const std::function<void()>& calls);

}  // namespace strata::collective::nccl
