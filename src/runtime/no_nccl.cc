#include "runtime/nccl_available.h"
#include "strata/runtime/cross_device_ops.h"

namespace strata {

struct NcclAllReduce::Communicators {};

NcclAllReduce::NcclAllReduce(PackingOptions options) : options_(options) {
  detail::throw_error(ErrorCode::kUnimplemented,
                      "[nccl_all_reduce] this build has no NCCL; install PyTorch with CUDA (pip "
                      "install torch) and build the cuda "
                      "preset, or use ReductionToOneDevice or HierarchicalCopyAllReduce");
}

NcclAllReduce::~NcclAllReduce() = default;

PerReplica<at::Tensor> NcclAllReduce::do_reduce(ReduceOp, const PerReplica<at::Tensor>&) {
  STRATA_DCHECK(!"reached without NCCL");
  return {};
}

std::vector<PerReplica<at::Tensor>> NcclAllReduce::do_batch_reduce(
    ReduceOp, const std::vector<PerReplica<at::Tensor>>&) {
  STRATA_DCHECK(!"reached without NCCL");
  return {};
}

bool nccl_available() { return false; }

}  // namespace strata
