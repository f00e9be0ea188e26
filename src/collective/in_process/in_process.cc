#include "collective/in_process/in_process.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include "collective/algorithms/tree_op.h"
#include "collective/in_process/in_process_executor.h"
#include "strata/core/error.h"

namespace strata::collective {
namespace {

uint64_t fingerprint(const at::Tensor& tensor, ReduceOp op) {
  uint64_t hash =
      static_cast<uint64_t>(op) * 1000003u + static_cast<uint64_t>(tensor.scalar_type());
  for (const int64_t size : tensor.sizes())
    hash = hash * 1000003u + static_cast<uint64_t>(size) + 1;
  return hash;
}

struct AllReduceArguments {
  at::Tensor* tensor;
  ReduceOp op;
};

const AllReduceArguments& arguments_of(const Rendezvous::Call& call) {
  return *static_cast<const AllReduceArguments*>(call.payload);
}

std::string describe_all_reduce(const Rendezvous::Call& call) {
  const AllReduceArguments& p = arguments_of(call);
  return str_cat("all_reduce(", reduce_op_name(p.op), ") of ", p.tensor->scalar_type(), " ",
                 p.tensor->sizes());
}

void reduce_whole(Rendezvous& rendezvous, ReduceOp op) {
  std::vector<at::Tensor> values;
  for (int i = 0; i < rendezvous.num_participants(); ++i) {
    values.push_back(*arguments_of(rendezvous.call(i)).tensor);
  }
  const at::Tensor result = reduce_in_order(values, op);
  for (at::Tensor& value : values) value.copy_(result);
}

/// As tf.IndexedSlices are added.
at::Tensor join_sparse(const std::vector<at::Tensor>& values, const at::Tensor& first,
                       ReduceOp op) {
  STRATA_CHECK(op == ReduceOp::kSum || op == ReduceOp::kMean, kInvalidArgument,
               "[collective] reduce: got ", reduce_op_name(op),
               " of sparse tensors; expected SUM or MEAN; pass value.to_dense()");
  std::vector<at::Tensor> indices;
  std::vector<at::Tensor> entries;
  for (const at::Tensor& value : values) {
    if (!value.defined()) continue;
    STRATA_CHECK(value.sparse_dim() == first.sparse_dim(), kInvalidArgument,
                 "[collective] reduce: got sparse tensors with ", first.sparse_dim(), " and ",
                 value.sparse_dim(), " sparse dimensions; expected as many on every replica");
    indices.push_back(value._indices().to(first.device()));
    entries.push_back(value._values().to(first.device()));
  }
  at::Tensor all = at::cat(entries);
  if (op == ReduceOp::kMean) all = all.div(static_cast<double>(values.size()));
  return at::sparse_coo_tensor(at::cat(indices, 1), all, first.sizes());
}

void check_layout(const at::Tensor& value, const at::Tensor& first, size_t replica) {
  STRATA_CHECK((value.layout() == at::kStrided || value.is_sparse()) && !value.is_quantized(),
               kInvalidArgument, "[collective] reduce: got layout ", value.layout(), " of ",
               value.scalar_type(), " (replica ", replica,
               "); expected dense or sparse COO tensors");
  STRATA_CHECK(value.layout() == first.layout(), kInvalidArgument,
               "[collective] reduce: got layouts ", first.layout(), " and ", value.layout(),
               " (replica ", replica, "); expected one: pass value.to_dense() everywhere");
}

/// A replica's thread serves one strategy at a time, so one schedule is enough.
const Schedule& cached_schedule(int num_ranks) {
  thread_local Schedule schedule;
  if (schedule.num_ranks() != num_ranks) schedule = shared_direct_all_reduce(num_ranks);
  return schedule;
}

template <typename T>
void reduce_in_place(Rendezvous& rendezvous, int participant, const Rendezvous::Call& call,
                     ReduceOp op) {
  constexpr int64_t kAloneBytes =
      16 * 1024;  // below, a second barrier costs more than sharing saves
  const int n = rendezvous.num_participants();
  const at::Tensor& local = *arguments_of(call).tensor;
  const int64_t size = local.numel();
  const bool alone = size * static_cast<int64_t>(sizeof(T)) <= kAloneBytes;
  const Schedule& schedule = cached_schedule(n);
  std::vector<T*> buffers;
  const auto collect = [&] {
    for (int i = 0; i < n; ++i) {
      buffers.push_back(arguments_of(rendezvous.call(i)).tensor->template data_ptr<T>());
    }
  };
  if (alone) {
    rendezvous.arrive(participant, call, [&] {
      collect();
      for (int rank = 0; rank < n; ++rank) execute(schedule, rank, buffers, size, op, [] {});
    });
    return;
  }
  execute(schedule, participant, buffers, size, op, [&] {
    rendezvous.arrive(participant, call);
    if (buffers.empty()) collect();
  });
}

}  // namespace

at::Tensor reduce_in_order(const std::vector<at::Tensor>& values, ReduceOp op) {
  const at::Tensor* first = nullptr;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    if (!first) first = &values[i];
    STRATA_CHECK(values[i].sizes() == first->sizes(), kInvalidArgument,
                 "[collective] reduce: got shapes ", first->sizes(), " and ", values[i].sizes(),
                 " (replica ", i, "); expected equal shapes; reduce with an axis if rows differ");
    STRATA_CHECK(values[i].scalar_type() == first->scalar_type(), kInvalidArgument,
                 "[collective] reduce: got dtypes ", first->scalar_type(), " and ",
                 values[i].scalar_type(), " (replica ", i, "); expected one dtype");
    check_layout(values[i], *first, i);
  }
  STRATA_CHECK(first, kInvalidArgument, "[collective] reduce: got no value; expected at least one");
  if (first->is_sparse()) return join_sparse(values, *first, op);
  STRATA_CHECK(!first->is_complex() || op == ReduceOp::kSum || op == ReduceOp::kMean,
               kInvalidArgument, "[collective] reduce: got ", reduce_op_name(op), " of ",
               first->scalar_type(), ", which has no order; expected SUM or MEAN");
  // 16-bit floats are added in float and rounded once, on every thread.
  const at::ScalarType dtype = first->scalar_type();
  const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
  std::vector<at::Tensor> here;
  for (const at::Tensor& value : values) {
    here.push_back(value.defined() ? value.to(first->device(), half ? at::kFloat : dtype) : value);
  }
  at::Tensor result = tensor::reduce_in_tree_order(tree_op(op), here);
  if (op == ReduceOp::kMean) result = result.div(static_cast<double>(values.size()));
  if (half) return result.to(dtype);
  return result.is_same(*first) ? result.clone() : result;
}

void all_reduce_(Rendezvous& rendezvous, int participant, at::Tensor& tensor, ReduceOp op) {
  const auto dtype = tensor.scalar_type();
  STRATA_CHECK(op != ReduceOp::kMean || tensor.is_floating_point() || tensor.is_complex(),
               kInvalidArgument, "[collective] all_reduce: got MEAN of ", dtype,
               "; expected a floating dtype, because the result is written in place");
  STRATA_CHECK(dtype != at::kBool, kInvalidArgument,
               "[collective] all_reduce: got bool; expected a number; cast it to int32 first");
  AllReduceArguments local{.tensor = &tensor, .op = op};
  const Rendezvous::Call call{.name = "all_reduce",
                              .key = fingerprint(tensor, op),
                              .payload = &local,
                              .describe = describe_all_reduce};
  if (rendezvous.num_participants() == 1) return;
  const bool direct = tensor.is_cpu() && tensor.is_contiguous();
  if (direct && dtype == at::kFloat)
    return reduce_in_place<float>(rendezvous, participant, call, op);
  if (direct && dtype == at::kDouble)
    return reduce_in_place<double>(rendezvous, participant, call, op);
  rendezvous.arrive(participant, call, [&] { reduce_whole(rendezvous, op); });
}

}  // namespace strata::collective
