#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <set>

#include "collective/in_process/in_process.h"
#include "runtime/nccl_available.h"
#include "strata/runtime/cross_device_ops.h"

namespace strata {
namespace {

using Values = PerReplica<at::Tensor>;

void check(ncclResult_t result, const char* call) {
  STRATA_CHECK(result == ncclSuccess, kUnavailable, "[nccl_all_reduce] ", call, ": ",
               ncclGetErrorString(result), "; set NCCL_DEBUG=INFO for NCCL's own account");
}

ncclDataType_t data_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    default:
      detail::throw_error(ErrorCode::kInvalidArgument,
                          str_cat("[nccl_all_reduce] got dtype ", dtype,
                                  "; expected a float of 16 to 64 bits, int32 or int64"));
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

/// The CUDA device of each value; empty where two share one, or one is no GPU.
std::vector<int> distinct_gpus(const Values& values) {
  std::vector<int> gpus;
  for (const at::Tensor& value : values) {
    if (value.is_cuda()) gpus.push_back(value.get_device());
  }
  const std::set<int> distinct(gpus.begin(), gpus.end());
  return distinct.size() == static_cast<size_t>(values.size()) ? gpus : std::vector<int>();
}

}  // namespace

struct NcclAllReduce::Communicators {
  ~Communicators() { destroy(); }

  /// Communicators over `gpus`; the last ones are kept.
  const std::vector<ncclComm_t>& over(const std::vector<int>& gpus) {
    if (devices == gpus) return all;
    destroy();
    all.resize(gpus.size());
    check(ncclCommInitAll(all.data(), static_cast<int>(gpus.size()), gpus.data()),
          "ncclCommInitAll");
    devices = gpus;
    return all;
  }

  void destroy() {
    for (ncclComm_t each : all) ncclCommDestroy(each);
    all.clear();
    devices.clear();
  }

  std::vector<int> devices;
  std::vector<ncclComm_t> all;
};

NcclAllReduce::NcclAllReduce(PackingOptions options)
    : options_(options), communicators_(std::make_unique<Communicators>()) {
  STRATA_CHECK(options_.num_packs >= 0, kInvalidArgument, "[nccl_all_reduce] num_packs: got ",
               options_.num_packs, "; expected 0 (no packing) or more");
}

NcclAllReduce::~NcclAllReduce() = default;

Values NcclAllReduce::do_reduce(ReduceOp op, const Values& values) {
  const std::vector<int> gpus = distinct_gpus(values);
  if (gpus.empty()) {
    const at::Tensor result = collective::reduce_in_order(values.values(), op);
    std::vector<at::Tensor> copies;
    for (const at::Tensor& value : values) copies.push_back(result.to(value.device()));
    return Values(std::move(copies));
  }
  const std::vector<ncclComm_t>& comms = communicators_->over(gpus);
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> results;
  for (const at::Tensor& value : values) {
    inputs.push_back(value.contiguous());
    results.push_back(at::empty_like(inputs.back()));
  }
  check(ncclGroupStart(), "ncclGroupStart");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto stream = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(gpus[i]));
    check(ncclAllReduce(inputs[i].const_data_ptr(), results[i].mutable_data_ptr(),
                        static_cast<size_t>(inputs[i].numel()), data_type(inputs[i].scalar_type()),
                        reduction(op), comms[i], stream.stream()),
          "ncclAllReduce");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
  return Values(std::move(results));
}

std::vector<Values> NcclAllReduce::do_batch_reduce(ReduceOp op, const std::vector<Values>& values) {
  return detail::reduce_packed(values, options_.num_packs,
                               [&](const Values& pack) { return do_reduce(op, pack); });
}

bool nccl_available() { return true; }

}  // namespace strata
