#include "collective/nccl/nccl_types.h"

#include "collective/nccl/nccl_library.h"
#include "strata/core/error.h"

namespace strata::collective::nccl {

ncclDataType_t data_type(at::ScalarType dtype, std::string_view caller) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kChar:
      return ncclInt8;
    case at::kByte:
      return ncclUint8;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    default:
      detail::throw_error(
          ErrorCode::kInvalidArgument,
          str_cat("[", caller, "] got dtype ", dtype,
                  "; expected a float of 16 to 64 bits, int8, uint8, int32 or int64"));
  }
}

ncclRedOp_t reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMean:
      return ncclAvg;
    default:
      return ncclSum;
  }
}

void check(ncclResult_t result, std::string_view call, std::string_view caller, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  const Library& library = require(caller);
  detail::throw_error(
      ErrorCode::kUnavailable,
      str_cat("[", caller, "] ", call, ": ", library.get_error_string(result), ": ",
              library.get_last_error(comm), "; set NCCL_DEBUG=INFO for NCCL's own account"));
}

ncclResult_t call_in_group(std::string_view caller, const std::function<void()>& calls) {
  const Library& library = require(caller);
  check(library.group_start(), "ncclGroupStart", caller);
  try {
    calls();
  } catch (...) {
    library.group_end();
    throw;
  }
  return library.group_end();
}

}  // namespace strata::collective::nccl
