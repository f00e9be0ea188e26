#include "runtime/group_exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "collective/in_process/in_process.h"
#include "runtime/replica_group.h"

namespace strata::detail {
namespace {

thread_local uint64_t exchanges = 0;

/// Dtypes that a communicator adds; the others are gathered.
bool is_added_on_the_way(at::ScalarType dtype) {
  return at::isIntegralType(dtype, /*includeBool=*/false) || dtype == at::kFloat ||
         dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;
}

template <typename T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T take(std::string_view& text) {
  T value;
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return value;
}

constexpr int8_t kUndefined = -1;

/// A tensor as bytes: dtype, rank, sizes, elements.
void write(std::string& text, const at::Tensor& tensor) {
  if (!tensor.defined()) return append(text, kUndefined);
  const at::Tensor here = tensor.detach().cpu().contiguous();
  append(text, static_cast<int8_t>(here.scalar_type()));
  append(text, here.dim());
  for (const int64_t size : here.sizes()) append(text, size);
  if (here.nbytes() > 0)
    text.append(static_cast<const char*>(here.const_data_ptr()), here.nbytes());
}

at::Tensor read(std::string_view& text) {
  const auto dtype = take<int8_t>(text);
  if (dtype == kUndefined) return {};
  std::vector<int64_t> sizes(static_cast<size_t>(take<int64_t>(text)));
  for (int64_t& size : sizes) size = take<int64_t>(text);
  at::Tensor tensor =
      at::empty(sizes, at::TensorOptions().dtype(static_cast<at::ScalarType>(dtype)));
  if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), text.data(), tensor.nbytes());
  text.remove_prefix(tensor.nbytes());
  return tensor;
}

}  // namespace

uint64_t exchanges_of_thread() { return exchanges; }

void check_value(std::string_view module, std::string_view call, const at::Tensor& value) {
  STRATA_CHECK(value.defined(), kInvalidArgument, "[", module, "] ", call,
               ": got an undefined tensor; pass one with a value on every replica");
  STRATA_CHECK((value.layout() == at::kStrided || value.is_sparse()) && !value.is_quantized(),
               kInvalidArgument, "[", module, "] ", call, ": got layout ", value.layout(), " of ",
               value.scalar_type(), "; expected a dense or a sparse COO tensor");
}

namespace {

/// All replicas', as indices and entries.
at::Tensor reduce_sparse(const ReplicaGroup& group, const std::vector<at::Tensor>& own,
                         const at::Tensor& first, ReduceOp op, const std::string& what) {
  std::vector<at::Tensor> indices;
  std::vector<at::Tensor> entries;
  std::vector<at::Tensor> sizes;
  for (const at::Tensor& value : own) {
    const bool sparse = value.defined() && value.is_sparse();
    STRATA_CHECK(!value.defined() || sparse, kInvalidArgument, "[", group.name(), "] ", what,
                 ": got sparse tensors and dense ones; expected one layout: pass value.to_dense() "
                 "on every replica");
    indices.push_back(sparse ? value._indices() : at::Tensor());
    entries.push_back(sparse ? value._values() : at::Tensor());
    sizes.push_back(sparse ? at::tensor(value.sizes()) : at::Tensor());
  }
  indices = gather_over_group(group, indices, what + " (indices)");
  entries = gather_over_group(group, entries, what + " (entries)");
  sizes = gather_over_group(group, sizes, what + " (sizes)");
  std::vector<at::Tensor> all;
  for (size_t r = 0; r < indices.size(); ++r) {
    all.emplace_back();
    if (!indices[r].defined()) continue;
    const at::IntArrayRef shape(sizes[r].const_data_ptr<int64_t>(),
                                static_cast<size_t>(sizes[r].numel()));
    all.back() = at::sparse_coo_tensor(indices[r].cpu(), entries[r].cpu(), shape);
  }
  return collective::reduce_in_order(all, op).to(first.device());
}

}  // namespace

at::Tensor reduce_over_group(const ReplicaGroup& group, const std::vector<at::Tensor>& own,
                             ReduceOp op, const std::string& what) {
  if (group.communicator() == nullptr) return collective::reduce_in_order(own, op);
  ++exchanges;
  group.mend();
  const auto first =
      std::find_if(own.begin(), own.end(), [](const at::Tensor& value) { return value.defined(); });
  STRATA_DCHECK(first != own.end());
  if (first->is_sparse()) return reduce_sparse(group, own, *first, op, what);
  if (!is_added_on_the_way(first->scalar_type())) {
    return collective::reduce_in_order(gather_over_group(group, own, what), op).to(first->device());
  }
  // As reduce_in_order does it: the mean of integers is a float.
  const bool float_of_integers = op == ReduceOp::kMean && !first->is_floating_point();
  at::Tensor result = at::empty_like(*first, at::MemoryFormat::Contiguous).detach();
  std::vector<at::Tensor> values;
  for (const at::Tensor& value : own) values.push_back(value.defined() ? value.detach() : value);
  group.communicator()->all_reduce(values, result, float_of_integers ? ReduceOp::kSum : op,
                                   {.name = what});
  return float_of_integers ? result.div(static_cast<double>(group.num_replicas())) : result;
}

std::vector<at::Tensor> gather_over_group(const ReplicaGroup& group,
                                          const std::vector<at::Tensor>& own,
                                          const std::string& what) {
  group.mend();
  collective::Communicator* const communicator = group.communicator();
  if (communicator == nullptr) return own;
  ++exchanges;
  std::string text;
  for (const at::Tensor& tensor : own) write(text, tensor);
  const std::vector<std::string> parts = communicator->all_gather_bytes(text, {.name = what});
  std::vector<at::Tensor> all(static_cast<size_t>(group.num_replicas()));
  for (int rank = 0; rank < communicator->num_ranks(); ++rank) {
    std::string_view part = parts[static_cast<size_t>(rank)];
    size_t local = 0;
    for (const int id : communicator->placement().replicas_of(rank)) {
      all[static_cast<size_t>(id)] = rank == communicator->rank() ? own[local++] : read(part);
    }
  }
  return all;
}

at::Tensor initial_value(const ReplicaGroup& group, const at::Tensor& own,
                         const std::string& variable) {
  if (group.options().late_joiner) return own;
  return first_of_group(group, own, str_cat("initial value of '", variable, "'"));
}

at::Tensor first_of_group(const ReplicaGroup& group, const at::Tensor& own,
                          const std::string& what) {
  group.mend();
  collective::Communicator* const communicator = group.communicator();
  if (communicator == nullptr) return own;
  ++exchanges;
  at::Tensor value = own.detach().clone();  // in its order in memory, which decides bits
  communicator->broadcast_(value, communicator->placement().rank_of_replica[0], {.name = what});
  return value;
}

}  // namespace strata::detail
