#include "strata/runtime/replica_context.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include "collective/in_process/in_process.h"
#include "graph/host_call.h"
#include "runtime/card_exchange.h"
#include "runtime/context.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "runtime/saved_context.h"
#include "strata/runtime/cross_device_ops.h"

namespace strata {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A list that takes the memory of this thread's last one.
class Payloads {
 public:
  Payloads() : list_(std::move(spare())) { list_.clear(); }
  ~Payloads() { spare() = std::move(list_); }
  Payloads(const Payloads&) = delete;
  Payloads& operator=(const Payloads&) = delete;
  std::vector<void*>* operator->() { return &list_; }
  const std::vector<void*>& operator*() const { return list_; }

 private:
  static std::vector<void*>& spare() {
    thread_local std::vector<void*> memory;
    return memory;
  }
  std::vector<void*> list_;
};

at::Tensor all_reduce_values(const ReplicaContext& context, ReduceOp op, const at::Tensor& value) {
  ReplicaGroup& group = context.group();
  if (group.num_replicas_in_sync() == 1) return value.clone();
  if (detail::has_cards_for(group, context.local_replica(), value))
    return detail::all_reduce_on_cards(context, op, value);
  struct Visit {
    const at::Tensor* in;
    at::Tensor out;
  } visit{&value, {}};
  if (group.communicator() != nullptr) {
    const auto reduce = [&](const std::vector<void*>& all) {
      std::vector<at::Tensor> values;
      for (void* each : all) values.push_back(*static_cast<Visit*>(each)->in);
      const at::Tensor result = detail::reduce_over_group(group, values, op, "all_reduce");
      for (void* each : all) static_cast<Visit*>(each)->out = result;
    };
    context.synchronize("all_reduce", &visit, reduce, /*key=*/static_cast<uint64_t>(op) + 1);
    return visit.out.to(value.device(), visit.out.scalar_type(), /*non_blocking=*/false,
                        /*copy=*/true);
  }
  if (CrossDeviceOps* ops = group.cross_device_ops()) {
    const auto reduce = [&](const std::vector<void*>& all) {
      std::vector<at::Tensor> values;
      for (void* each : all) values.push_back(*static_cast<Visit*>(each)->in);
      const PerReplica<at::Tensor> results = ops->reduce(op, PerReplica(std::move(values)));
      for (size_t i = 0; i < all.size(); ++i) {
        static_cast<Visit*>(all[i])->out = results.get(static_cast<int>(i));
      }
    };
    context.synchronize("all_reduce", &visit, reduce, /*key=*/static_cast<uint64_t>(op) + 1);
    return visit.out.clone();  // all replicas' may be one tensor
  }
  // The mean of integers is a float.
  at::Tensor result = op == ReduceOp::kMean && !value.is_floating_point()
                          ? value.to(at::kDouble)
                          : value.clone(at::MemoryFormat::Contiguous);
  collective::all_reduce_(group.rendezvous(), context.local_replica(), result, op);
  return result;
}

/// Sparse entries have no place of their own, so they are not added in place.
at::Tensor all_reduce_sparse(const ReplicaContext& context, ReduceOp op, const at::Tensor& value) {
  STRATA_CHECK(!value.requires_grad() || !at::GradMode::is_enabled(), kUnimplemented,
               "[replica_context] all_reduce: got a sparse tensor that requires gradients, which "
               "do not flow through its sum; detach it, or pass value.to_dense()");
  ReplicaGroup& group = context.group();
  if (group.num_replicas_in_sync() == 1) return value.clone();
  struct Visit {
    at::Tensor in;
    at::Tensor out;
  } visit{value.detach(), {}};
  const auto reduce = [&](const std::vector<void*>& all) {
    std::vector<at::Tensor> values;
    for (void* each : all) values.push_back(static_cast<Visit*>(each)->in);
    const at::Tensor result = detail::reduce_over_group(group, values, op, "all_reduce");
    for (void* each : all) static_cast<Visit*>(each)->out = result;
  };
  constexpr uint64_t kSparse = 100;
  context.synchronize("all_reduce", &visit, reduce, kSparse + static_cast<uint64_t>(op));
  return visit.out.to(value.device()).clone();
}

/// In a step that is traced: a node that makes the same call.
at::Tensor all_reduce_here(const ReplicaContext& context, ReduceOp op, const at::Tensor& value) {
  if (!graph::tracing() || context.num_replicas_in_sync() == 1) {
    return all_reduce_values(context, op, value);
  }
  const bool counts = op == ReduceOp::kMean && !value.is_floating_point() && !value.is_complex();
  const at::ScalarType dtype = counts ? at::kDouble : value.scalar_type();
  return graph::call_host("strata::all_reduce", {value},
                          {{value.sizes().vec(), dtype, value.device()}},
                          [&context, op](const std::vector<at::Tensor>& values) {
                            const at::Tensor sum = all_reduce_values(context, op, values[0]);
                            return std::vector<at::Tensor>{sum.contiguous()};
                          },
                          {static_cast<double>(op)})[0];
}

class AllReduce : public torch::autograd::Function<AllReduce> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& value, int64_t op,
                            const c10::IValue& context) {
    ctx->saved_data["op"] = op;
    ctx->saved_data["context"] = context;
    return all_reduce_here(*detail::saved_context(context), static_cast<ReduceOp>(op), value);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto op = static_cast<ReduceOp>(ctx->saved_data["op"].toInt());
    STRATA_CHECK(op == ReduceOp::kSum || op == ReduceOp::kMean, kInvalidArgument,
                 "[replica_context] all_reduce: got the gradient of ", reduce_op_name(op),
                 "; expected SUM or MEAN; detach the value");
    return {
        detail::saved_context(ctx->saved_data["context"])->all_reduce(op, gradients[0]), {}, {}};
  }
};

struct Gathered {
  const at::Tensor* in;
  int64_t axis;
  at::Tensor out;
};

at::Tensor gather_values(const ReplicaContext& context, const at::Tensor& value, int64_t axis) {
  Gathered visit{&value, axis, {}};
  const auto check = [&](const at::Tensor& other, int replica, int64_t other_axis) {
    bool fits = other.dim() == value.dim() && other_axis == axis &&
                other.scalar_type() == value.scalar_type();
    for (int64_t d = 0; fits && d < value.dim(); ++d) {
      fits = d == axis || other.size(d) == value.size(d);
    }
    STRATA_CHECK(fits, kInvalidArgument, "[replica_context] all_gather: got ", other.scalar_type(),
                 " ", other.sizes(), " with axis ", other_axis, " on replica ", replica, " and ",
                 value.scalar_type(), " ", value.sizes(), " with axis ", axis, " on replica ",
                 context.replica_id_in_sync_group(),
                 "; expected equal dtypes, and shapes that differ only along the gather axis");
  };
  context.synchronize("all_gather", &visit, [&](const std::vector<void*>& all) {
    std::vector<at::Tensor> local;
    for (size_t i = 0; i < all.size(); ++i) {
      const Gathered& each = *static_cast<Gathered*>(all[i]);
      check(*each.in, context.group().replica_id(static_cast<int>(i)), each.axis);
      local.push_back(*each.in);
    }
    std::vector<at::Tensor> values =
        detail::gather_over_group(context.group(), local, "all_gather");
    for (size_t i = 0; i < values.size(); ++i) {
      check(values[i], static_cast<int>(i), axis);
      values[i] = values[i].to(value.device());
    }
    for (void* each : all) static_cast<Gathered*>(each)->out = at::cat(values, axis);
  });
  return visit.out.to(value.device());
}

/// In a step that is traced: a node that makes the same call, if all replicas have as many rows.
at::Tensor gather_here(const ReplicaContext& context, const at::Tensor& value, int64_t axis) {
  if (!graph::tracing()) return gather_values(context, value, axis);
  if (context.num_replicas_in_sync() > 1 && graph::others_may_change()) {
    graph::refuse_in_trace("all_gather joins the rows of all replicas, whose number may change",
                           "run the function eagerly");
  }
  std::vector<int64_t> sizes = value.sizes().vec();
  sizes[static_cast<size_t>(axis)] *= context.num_replicas_in_sync();
  return graph::call_host("strata::all_gather", {value},
                          {{sizes, value.scalar_type(), value.device()}},
                          [&context, axis](const std::vector<at::Tensor>& values) {
                            const at::Tensor all = gather_values(context, values[0], axis);
                            return std::vector<at::Tensor>{all.contiguous()};
                          },
                          {static_cast<double>(axis)})[0];
}

class AllGather : public torch::autograd::Function<AllGather> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& value, int64_t axis,
                            const c10::IValue& context) {
    ctx->saved_data["axis"] = axis;
    ctx->saved_data["rows"] = value.size(axis);
    ctx->saved_data["context"] = context;
    return gather_here(*detail::saved_context(context), value, axis);
  }

  /// Every replica's loss may use this replica's rows: their gradients are summed.
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const ReplicaContext& context = *detail::saved_context(ctx->saved_data["context"]);
    const int64_t axis = ctx->saved_data["axis"].toInt();
    const int64_t rows = ctx->saved_data["rows"].toInt();
    const at::Tensor total = context.all_reduce(ReduceOp::kSum, gradients[0]);
    if (graph::tracing()) {  // as many rows on every replica: the node in forward checks it
      return {total.narrow(axis, rows * context.replica_id_in_sync_group(), rows), {}, {}};
    }
    struct Visit {
      int64_t rows;
      std::vector<at::Tensor> all;
    } visit{rows, {}};
    context.synchronize("all_gather", &visit, [&](const std::vector<void*>& all) {
      std::vector<at::Tensor> local;
      for (void* each : all)
        local.push_back(at::scalar_tensor(static_cast<Visit*>(each)->rows, at::kLong));
      const std::vector<at::Tensor> counts =
          detail::gather_over_group(context.group(), local, "all_gather");
      for (void* each : all) static_cast<Visit*>(each)->all = counts;
    });
    int64_t begin = 0;
    for (int i = 0; i < context.replica_id_in_sync_group(); ++i) {
      begin += visit.all[static_cast<size_t>(i)].item<int64_t>();
    }
    return {total.narrow(axis, begin, rows), {}, {}};
  }
};

}  // namespace

ReplicaContext::ReplicaContext(ReplicaGroup& group, int local)
    : group_(group),
      local_(local),
      replica_id_(group.replica_id(local) % group.num_replicas_in_sync()) {}

int ReplicaContext::num_replicas_in_sync() const { return group_.num_replicas_in_sync(); }

const LogicalDevice& ReplicaContext::device() const { return group_.device(local_); }

at::Tensor ReplicaContext::all_reduce(ReduceOp op, const at::Tensor& value) const {
  detail::check_value("replica_context", "all_reduce", value);
  STRATA_CHECK(!value.is_complex() || op == ReduceOp::kSum || op == ReduceOp::kMean,
               kInvalidArgument, "[replica_context] all_reduce: got ", reduce_op_name(op), " of ",
               value.scalar_type(), ", which has no order; expected SUM or MEAN");
  STRATA_CHECK(value.scalar_type() != at::kBool, kInvalidArgument,
               "[replica_context] all_reduce: got bool; expected a number; cast it to int32 first");
  if (value.is_sparse()) return all_reduce_sparse(*this, op, value);
  return AllReduce::apply(value, static_cast<int64_t>(op), detail::save_context(this));
}

std::vector<at::Tensor> ReplicaContext::all_reduce(ReduceOp op,
                                                   const std::vector<at::Tensor>& values) const {
  std::vector<at::Tensor> results;
  for (const at::Tensor& value : values) results.push_back(all_reduce(op, value));
  return results;
}

at::Tensor ReplicaContext::all_gather(const at::Tensor& value, int64_t axis) const {
  detail::check_value("replica_context", "all_gather", value);
  STRATA_CHECK(!value.is_sparse(), kUnimplemented,
               "[replica_context] all_gather: got a sparse tensor; pass value.to_dense()");
  STRATA_CHECK(axis >= 0 && axis < value.dim(), kInvalidArgument,
               "[replica_context] all_gather: got axis ", axis, " for a tensor of rank ",
               value.dim(), "; expected 0 <= axis < rank; scalars have no axis: reshape to [1]");
  return AllGather::apply(value, axis, detail::save_context(this));
}

void ReplicaContext::synchronize(std::string_view name, void* payload,
                                 const std::function<void(const std::vector<void*>&)>& together,
                                 uint64_t key) const {
  if (graph::tracing()) {
    graph::refuse_in_trace(str_cat(name, " waits for the other replicas, which a trace does not"),
                           "make this call outside the function, or run the function eagerly");
  }
  if (group_.num_local_replicas() == 1) {  // The default strategy's may be many threads.
    const detail::ContextGuard cross_replica({&group_, nullptr});
    Payloads payloads;
    payloads->push_back(payload);
    return together(*payloads);
  }
  STRATA_CHECK(
      !group_.shares_gpu() || detail::current_context().replica == this, kUnimplemented, "[",
      group_.name(), "] ", name,
      ": called in backward by replicas that share a GPU, whose backwards run on one thread and "
      "cannot wait for each other; use one logical device per GPU, or keep synchronized "
      "BatchNormalization and all_reduce out of the differentiated part");
  collective::Rendezvous& rendezvous = group_.rendezvous();
  const collective::Rendezvous::Call call{.name = name, .key = key, .payload = payload};
  rendezvous.arrive(local_, call, [&] {
    const detail::ContextGuard cross_replica({&group_, nullptr});
    Payloads payloads;
    for (int i = 0; i < rendezvous.num_participants(); ++i) {
      payloads->push_back(rendezvous.call(i).payload);
    }
    together(*payloads);
  });
}

}  // namespace strata
