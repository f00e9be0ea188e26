#include <ATen/ops/empty_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <set>

#include "collective/in_process/in_process.h"
#include "collective/nccl/nccl_library.h"
#include "collective/nccl/nccl_types.h"
#include "runtime/nccl_available.h"
#include "strata/runtime/cross_device_ops.h"

namespace strata {
namespace {

using Values = PerReplica<at::Tensor>;

constexpr const char* kCaller = "nccl_all_reduce";

void check(ncclResult_t result, const char* call) {
  collective::nccl::check(result, call, kCaller);
}

/// The current stream of a GPU, as CUDA names it.
cudaStream_t current_stream(int gpu) {
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  const c10::Stream stream = c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device);
  return static_cast<cudaStream_t>(stream.native_handle());
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
  explicit Communicators(const collective::nccl::Library& library) : library(library) {}
  ~Communicators() { destroy(); }

  /// Communicators over `gpus`; the last ones are kept.
  const std::vector<ncclComm_t>& over(const std::vector<int>& gpus) {
    if (devices == gpus) return all;
    destroy();
    all.resize(gpus.size());
    check(library.comm_init_all(all.data(), static_cast<int>(gpus.size()), gpus.data()),
          "ncclCommInitAll");
    devices = gpus;
    return all;
  }

  void destroy() {
    for (ncclComm_t each : all) library.comm_destroy(each);
    all.clear();
    devices.clear();
  }

  const collective::nccl::Library& library;
  std::vector<int> devices;
  std::vector<ncclComm_t> all;
};

NcclAllReduce::NcclAllReduce(PackingOptions options)
    : options_(options),
      communicators_(std::make_unique<Communicators>(collective::nccl::require(kCaller))) {
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
  const ncclDataType_t type = collective::nccl::data_type(values.begin()->scalar_type(), kCaller);
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> results;
  for (const at::Tensor& value : values) {
    inputs.push_back(value.contiguous());
    results.push_back(at::empty_like(inputs.back()));
  }
  const collective::nccl::Library& library = communicators_->library;
  check(library.group_start(), "ncclGroupStart");
  ncclResult_t enqueued = ncclSuccess;
  for (size_t i = 0; i < inputs.size() && enqueued == ncclSuccess; ++i) {
    enqueued = library.all_reduce(inputs[i].const_data_ptr(), results[i].mutable_data_ptr(),
                                  static_cast<size_t>(inputs[i].numel()), type,
                                  collective::nccl::reduction(op), comms[i], current_stream(gpus[i]));
  }
  const ncclResult_t ended = library.group_end();  // in any case: the group is the thread's
  check(enqueued, "ncclAllReduce");
  check(ended, "ncclGroupEnd");
  return Values(std::move(results));
}

std::vector<Values> NcclAllReduce::do_batch_reduce(ReduceOp op, const std::vector<Values>& values) {
  return detail::reduce_packed(values, options_.num_packs,
                               [&](const Values& pack) { return do_reduce(op, pack); });
}

bool nccl_available() { return collective::nccl::find() != nullptr; }

}  // namespace strata
