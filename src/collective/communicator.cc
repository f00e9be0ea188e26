#include "collective/communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collective/call_tensors.h"
#include "collective/collective_call.h"

namespace strata::collective {
namespace {

void check_like(const at::Tensor& tensor, const at::Tensor& result, size_t index) {
  STRATA_CHECK(tensor.sizes() == result.sizes() && tensor.scalar_type() == result.scalar_type(),
               kInvalidArgument, "[collective] all_reduce: got ", tensor.scalar_type(), " ",
               tensor.sizes(), " for value ", index, " and ", result.scalar_type(), " ",
               result.sizes(), " for the result; expected one shape and dtype");
}

void check_count(const char* call, size_t values, size_t replicas, int rank) {
  STRATA_CHECK(values == replicas, kInvalidArgument, "[collective] ", call, ": got ", values,
               " values on rank ", rank, "; expected one for each of its ", replicas, " replicas");
}

constexpr auto kNoSharedMemory =
    "; expected ranks that share memory: ask shares_memory() first, or use buffer()";

void check_elements(const char* call, int64_t elements) {
  STRATA_CHECK(elements >= 0, kInvalidArgument, "[collective] ", call, ": got ", elements,
               " elements; expected 0 or more");
}

at::Tensor bytes_tensor(int64_t size) {
  return at::empty({size}, at::TensorOptions().dtype(at::kByte));
}

}  // namespace

Communicator::Communicator(int rank, Placement placement)
    : rank_(rank), placement_(std::move(placement)) {
  placement_.check();
  STRATA_CHECK(rank >= 0 && rank < num_ranks(), kInvalidArgument,
               "[collective] Communicator: got rank ", rank, " of ", num_ranks(),
               "; expected 0 to ", num_ranks() - 1);
  replicas_ = placement_.replicas_of(rank);
}

Communicator::~Communicator() = default;

/// What is refused before anything is sent leaves the communicator as it is.
template <typename Call>
void Communicator::note_failure_of(Call&& call) {
  try {
    call();
  } catch (...) {
    if (!do_status().ok()) failed_ = true;
    throw;
  }
}

/// @param what  The call without its memory.
void Communicator::run_reduction(const CollectiveCall& what, const std::vector<at::Tensor>& values,
                                 at::Tensor& result, const CallOptions& options) {
  note_failure_of([&] {
    CallTensors tensors(result, &values);
    const ReducedTensors& reduced =
        tensors.reduced.emplace(values, result, what.elements, what.op, placement_.num_replicas());
    CollectiveCall call = what;
    call.dtype = result.scalar_type();
    call.element_bytes = reduced.reduction.element_bytes();
    call.result = tensors.out.data();
    call.values = reduced.values;
    call.reduction = &reduced.reduction;
    call.tensors = &tensors;
    do_call(call, options);
    tensors.out.write_back();
  });
}

void Communicator::all_reduce(const std::vector<at::Tensor>& values, at::Tensor& result,
                              ReduceOp op, const CallOptions& options) {
  check_count("all_reduce", values.size(), replicas_.size(), rank_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].defined()) check_like(values[i], result, i);
  }
  run_reduction({.collective = Collective::kAllReduce, .op = op, .elements = result.numel()},
                values, result, options);
}

void Communicator::reduce_scatter(const std::vector<at::Tensor>& values, at::Tensor& part,
                                  ReduceOp op, const CallOptions& options) {
  check_count("reduce_scatter", values.size(), replicas_.size(), rank_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    STRATA_CHECK(values[i].numel() == part.numel() * num_ranks() &&
                     values[i].scalar_type() == part.scalar_type(),
                 kInvalidArgument, "[collective] reduce_scatter: got ", values[i].numel(), " ",
                 values[i].scalar_type(), " for value ", i, "; expected ", num_ranks(), " times ",
                 part.numel(), " ", part.scalar_type());
  }
  run_reduction({.collective = Collective::kReduceScatter,
                 .op = op,
                 .elements = part.numel() * num_ranks(),
                 .result_begin = part.numel() * rank_},
                values, part, options);
}

void Communicator::all_gather(const at::Tensor& part, at::Tensor& all, const CallOptions& options) {
  STRATA_CHECK(all.numel() == part.numel() * num_ranks() && all.scalar_type() == part.scalar_type(),
               kInvalidArgument, "[collective] all_gather: got ", all.numel(), " ",
               all.scalar_type(), " for all parts; expected ", num_ranks(), " times ", part.numel(),
               " ", part.scalar_type());
  note_failure_of([&] {
    const CallTensors tensors(all);
    const HostTensor local_part(part);
    const int64_t bytes = part.numel() * static_cast<int64_t>(part.element_size());
    std::byte* const place = tensors.out.data() + bytes * rank_;
    if (bytes > 0 && place != local_part.data()) {
      std::memmove(place, local_part.data(), static_cast<size_t>(bytes));
    }
    do_call({.collective = Collective::kAllGather,
             .dtype = all.scalar_type(),
             .elements = all.numel(),
             .element_bytes = static_cast<int64_t>(all.element_size()),
             .result = tensors.out.data(),
             .tensors = &tensors},
            options);
    tensors.out.write_back();
  });
}

std::vector<std::string> Communicator::all_gather_bytes(std::string_view local,
                                                        const CallOptions& options) {
  const auto ranks = static_cast<size_t>(num_ranks());
  at::Tensor size = at::zeros({1}, at::kLong);
  size.fill_(static_cast<int64_t>(local.size()));
  at::Tensor sizes = at::empty({num_ranks()}, at::kLong);
  all_gather(size, sizes, options);
  const int64_t* counts = sizes.const_data_ptr<int64_t>();
  const int64_t longest = *std::max_element(counts, counts + ranks);
  at::Tensor part = bytes_tensor(longest);
  if (!local.empty()) std::memcpy(part.data_ptr(), local.data(), local.size());
  at::Tensor all = bytes_tensor(longest * num_ranks());
  all_gather(part, all, options);
  std::vector<std::string> parts;
  for (size_t r = 0; r < ranks; ++r) {
    const char* begin =
        static_cast<const char*>(all.const_data_ptr()) + static_cast<size_t>(longest) * r;
    parts.emplace_back(begin, static_cast<size_t>(counts[r]));
  }
  return parts;
}

void Communicator::broadcast_(at::Tensor& tensor, int root, const CallOptions& options) {
  STRATA_CHECK(root >= 0 && root < num_ranks(), kInvalidArgument,
               "[collective] broadcast: got root ", root, "; expected 0 to ", num_ranks() - 1);
  note_failure_of([&] {
    const CallTensors tensors(tensor);
    do_call({.collective = Collective::kBroadcast,
             .dtype = tensor.scalar_type(),
             .elements = tensor.numel(),
             .element_bytes = static_cast<int64_t>(tensor.element_size()),
             .result = tensors.out.data(),
             .root = root,
             .tensors = &tensors},
            options);
    tensors.out.write_back();
  });
}

void Communicator::barrier(const CallOptions& options) {
  note_failure_of([&] { do_call({.collective = Collective::kBarrier}, options); });
}

at::Tensor Communicator::buffer(int64_t elements, at::ScalarType dtype) {
  check_elements("buffer", elements);
  at::Tensor made;
  note_failure_of([&] { made = do_buffer(elements, dtype); });
  return made;
}

std::vector<at::Tensor> Communicator::buffers(int64_t elements, at::ScalarType dtype) {
  check_elements("buffers", elements);
  std::vector<at::Tensor> made;
  note_failure_of([&] { made = do_buffers(elements, dtype); });
  return made;
}

at::Tensor Communicator::common_buffer(int64_t elements, at::ScalarType dtype) {
  check_elements("common_buffer", elements);
  at::Tensor made;
  note_failure_of([&] { made = do_common_buffer(elements, dtype); });
  return made;
}

at::Tensor Communicator::do_buffer(int64_t elements, at::ScalarType dtype) {
  return at::zeros({elements}, at::TensorOptions().dtype(dtype));
}

std::vector<at::Tensor> Communicator::do_buffers(int64_t, at::ScalarType) {
  detail::throw_error(ErrorCode::kFailedPrecondition,
                      str_cat("[collective] buffers: got ", describe(), kNoSharedMemory));
}

at::Tensor Communicator::do_common_buffer(int64_t, at::ScalarType) {
  detail::throw_error(ErrorCode::kFailedPrecondition,
                      str_cat("[collective] common_buffer: got ", describe(), kNoSharedMemory));
}

}  // namespace strata::collective
