#include "strata/runtime/sync_batch_norm.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "graph/host_call.h"
#include "graph/remote/step_runner.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "runtime/saved_context.h"
#include "runtime/sync_batch_norm_paths.h"
#include "strata/runtime/replica_context.h"

namespace strata {
namespace detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool alone(const ReplicaContext* context) {
  return context == nullptr || context->num_replicas_in_sync() == 1;
}

/// Whether what crosses replicas may stay on GPUs; else it passes through the host, which waits.
bool stays_on_gpus(const ReplicaContext* context) {
  if (alone(context)) return true;
  const ReplicaGroup& group = context->group();
  if (group.communicator() != nullptr || group.shares_gpu()) return false;
  for (int r = 0; r < group.num_local_replicas(); ++r) {
    if (!group.device(r).physical.is_cuda()) return false;
  }
  return true;
}

/// On the first's device.
Moments merge_here(const std::vector<const Moments*>& local) {
  const at::Device device = local[0]->mean.device();
  std::vector<Moments> here;
  for (const Moments* each : local) {
    here.push_back({each->count, each->mean.to(device), each->m2.to(device)});
  }
  std::vector<const Moments*> pointers;
  for (const Moments& each : here) pointers.push_back(&each);
  return merge_in_tree_order(pointers);
}

Moments merge_over_group(const ReplicaGroup& group, const std::vector<const Moments*>& local) {
  if (group.communicator() == nullptr) return merge_here(local);
  std::vector<at::Tensor> packed;
  for (const Moments* each : local) {
    packed.push_back(at::cat({at::full({1}, each->count, at::kDouble), each->mean, each->m2}));
  }
  std::vector<Moments> parts;
  for (const at::Tensor& each : gather_over_group(group, packed, "sync_batch_norm")) {
    const int64_t channels = (each.numel() - 1) / 2;
    parts.push_back({each[0].item<double>(), each.narrow(0, 1, channels),
                     each.narrow(0, 1 + channels, channels)});
  }
  std::vector<const Moments*> pointers;
  for (const Moments& each : parts) pointers.push_back(&each);
  return merge_in_tree_order(pointers);
}

}  // namespace

Moments merge_moments(const ReplicaContext* context, const Moments& local) {
  struct Visit {
    const Moments* in;
    Moments out;
  } visit{&local, {}};
  context->synchronize(
      "sync_batch_norm", &visit,
      [&](const std::vector<void*>& all) {
        std::vector<const Moments*> local;
        for (void* each : all) local.push_back(static_cast<Visit*>(each)->in);
        // Tensors shared by all replicas: they are not written to.
        const Moments merged = merge_over_group(context->group(), local);
        for (void* each : all) {
          auto& [in, out] = *static_cast<Visit*>(each);
          const at::Device device = in->mean.device();
          out = {merged.count, merged.mean.to(device), merged.m2.to(device)};
        }
      },
      /*key=*/static_cast<uint64_t>(local.mean.numel()));
  return visit.out;
}

namespace {

/// A node of a step that is traced. How many elements the other replicas have is known in a run alone.
Moments merge_in_trace(const ReplicaContext* context, const Moments& local) {
  const double count = local.count;
  const auto merge_again = [context, count](const std::vector<at::Tensor>& values) {
    const Moments merged = merge_moments(context, {count, values[0], values[1]});
    STRATA_CHECK(merged.count > 0, kFailedPrecondition,
                 "[sync_batch_norm] forward: got no elements on any replica, and the step was "
                 "traced with some; leave out empty batches, or run the function eagerly");
    return std::vector<at::Tensor>{merged.mean, merged.m2,
                                   at::scalar_tensor(merged.count, at::kDouble)};
  };
  const std::vector<at::Tensor> merged =
      graph::call_host("strata::merge_moments", {local.mean, local.m2},
                       {{local.mean.sizes().vec(), at::kDouble, local.mean.device()},
                        {local.m2.sizes().vec(), at::kDouble, local.m2.device()},
                        {{}, at::kDouble}},
                       merge_again, {count});
  return {std::max(count, 1.0) * context->num_replicas_in_sync(), merged[0], merged[1], merged[2]};
}

/// By sums over the replicas, for a compiler.
Moments merge_by_sums(const ReplicaContext* context, const Moments& local) {
  const auto sum = [&](const at::Tensor& x) { return context->all_reduce(ReduceOp::kSum, x); };
  const at::Tensor count = at::scalar_tensor(local.count, at::kDouble);
  const at::Tensor total = sum(count);
  const at::Tensor mean = sum(local.mean * count) / total;
  const at::Tensor m2 = sum(local.m2 + (local.mean - mean).square() * count);
  return {std::max(local.count, 1.0) * context->num_replicas_in_sync(), mean, m2, total};
}

/// The moments of the global batch.
Moments merge(const ReplicaContext* context, const Moments& local) {
  if (alone(context)) return local;
  if (graph::records_for_compiler()) return merge_by_sums(context, local);
  return graph::tracing() ? merge_in_trace(context, local) : merge_moments(context, local);
}

/// Sums over the replicas, in backward.
at::Tensor all_reduce_sums(const ReplicaContext* context, const at::Tensor& sums) {
  if (alone(context)) return sums;
  const at::NoGradGuard no_grad;
  return context->all_reduce(ReduceOp::kSum, sums);
}

at::Tensor as_double(const at::Tensor& parameter) { return parameter.detach().to(at::kDouble); }

class Normalize : public torch::autograd::Function<Normalize> {
 public:
  /// @param affine_weight, affine_bias  Both or none.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const std::optional<at::Tensor>& affine_weight,
                            const std::optional<at::Tensor>& affine_bias, const at::Tensor& mean,
                            const at::Tensor& inverse, const Moments* moments, int64_t context) {
    const at::Tensor weight = affine_weight.value_or(at::Tensor());
    const at::Tensor bias = affine_bias.value_or(at::Tensor());
    ctx->save_for_backward({x, weight, mean, inverse});
    ctx->saved_data["count"] = moments->count;
    ctx->saved_data["count_of_run"] = moments->count_of_run;
    ctx->saved_data["context"] = context;
    const at::Tensor scale = weight.defined() ? inverse * as_double(weight) : inverse;
    return normalize(x, mean, scale, bias.defined() ? as_double(bias) : at::zeros_like(inverse));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    STRATA_CHECK(
        !at::GradMode::is_enabled(), kUnimplemented,
        "[sync_batch_norm] backward: got create_graph; it has one derivative only on the CPU");
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& mean = saved[2];
    const at::Tensor& inverse = saved[3];
    const at::Tensor sums = gradient_sums(gradients[0], x, mean);
    variable_list result(7);
    if (ctx->needs_input_grad(0)) {
      const Moments moments{.count = ctx->saved_data["count"].toDouble(),
                            .mean = mean,
                            .m2 = {},
                            .count_of_run = ctx->saved_data["count_of_run"].toTensor()};
      const at::Tensor means =
          over_count(all_reduce_sums(saved_context(ctx->saved_data["context"]), sums), moments);
      const at::Tensor scale = weight.defined() ? inverse * as_double(weight) : inverse;
      result[0] =
          input_gradient(gradients[0], x, mean, means[0], means[1] * inverse.square(), scale);
    }
    // This replica's share: the sum of parameters' gradients over the replicas includes these
    // too.
    if (weight.defined()) {
      if (ctx->needs_input_grad(1)) result[1] = (sums[1] * inverse).to(weight.scalar_type());
      if (ctx->needs_input_grad(2)) result[2] = sums[0].to(weight.scalar_type());
    }
    return result;
  }
};

/// values * (count / max(total, 1)).
at::Tensor times_share(const at::Tensor& values, double count, const Moments& total) {
  if (!total.count_of_run.defined()) return values * (count / std::max(total.count, 1.0));
  return values * (at::full_like(total.count_of_run, count) / at::clamp_min(total.count_of_run, 1));
}

/// One replica's `[2, C]` (means, squared deviations; float64) to those of the global batch.
class MergeMoments : public torch::autograd::Function<MergeMoments> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& local, double count,
                            int64_t context, Moments* merged) {
    const Moments part{count, local[0].clone(), local[1].clone()};
    *merged = merge(saved_context(context), part);
    ctx->save_for_backward({part.mean, merged->mean});
    ctx->saved_data["count"] = count;
    ctx->saved_data["total"] = merged->count;
    ctx->saved_data["total_of_run"] = merged->count_of_run;
    ctx->saved_data["context"] = context;
    return at::stack({merged->mean, merged->m2});
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const double count = ctx->saved_data["count"].toDouble();
    const Moments total{.count = ctx->saved_data["total"].toDouble(),
                        .mean = {},
                        .m2 = {},
                        .count_of_run = ctx->saved_data["total_of_run"].toTensor()};
    const at::Tensor all = all_reduce_sums(saved_context(ctx->saved_data["context"]), gradients[0]);
    const at::Tensor mean =
        times_share(all[0], count, total) + all[1] * (saved[0] - saved[1]) * (2 * count);
    return {at::stack({mean, all[1]}), {}, {}, {}};
  }
};

}  // namespace

SyncBatchNormResult sync_batch_norm(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, double eps,
                                    const ReplicaContext* context) {
  const bool fused = x.is_cpu() && (context == nullptr || context->group().all_cpu());
  return (fused ? sync_batch_norm_fused : sync_batch_norm_by_operators)(x, weight, bias, eps,
                                                                        context);
}

SyncBatchNormResult sync_batch_norm_fused(const at::Tensor& x, const at::Tensor& weight,
                                          const at::Tensor& bias, double eps,
                                          const ReplicaContext* context) {
  const Moments moments = merge(context, batch_moments(x.detach()));
  const at::Tensor inverse = over_count(moments.m2, moments).add_(eps).rsqrt_();
  const auto given = [](const at::Tensor& parameter) {
    return parameter.defined() ? std::optional(parameter) : std::nullopt;
  };
  return {Normalize::apply(x, given(weight), given(bias), moments.mean, inverse, &moments,
                           save_context(context)),
          moments};
}

SyncBatchNormResult sync_batch_norm_by_operators(const at::Tensor& x, const at::Tensor& weight,
                                                 const at::Tensor& bias, double eps,
                                                 const ReplicaContext* context) {
  std::vector<int64_t> others;  // all dimensions but the channels'
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) others.push_back(d);
  }
  const auto per_channel = [&](const at::Tensor& values) { return values.reshape(shape); };
  const at::Tensor wide = x.to(at::toOpMathType(x.scalar_type()));
  const int64_t count = wide.numel() / std::max<int64_t>(x.size(1), 1);
  const double divisor = std::max<double>(static_cast<double>(count), 1);

  // Around a rough centre, so that large means do not cancel.
  const at::Tensor center = wide.detach().sum(others) / divisor;
  const at::Tensor apart = wide - per_channel(center);
  const at::Tensor offset = apart.sum(others) / divisor;
  const at::Tensor m2 = (apart - per_channel(offset)).square().sum(others);
  at::Tensor local =
      at::stack({center.to(at::kDouble) + offset.to(at::kDouble), m2.to(at::kDouble)});
  if (!stays_on_gpus(context)) local = local.cpu();

  Moments merged;
  const at::Tensor all =
      MergeMoments::apply(local, static_cast<double>(count), save_context(context), &merged)
          .to(x.device());
  const at::Tensor mean = (all[0] - center.to(at::kDouble)).to(wide.scalar_type());
  const at::Tensor inverse = (over_count(all[1], merged) + eps).rsqrt().to(wide.scalar_type());
  at::Tensor y = (apart - per_channel(mean)) *
                 per_channel(weight.defined() ? inverse * weight.to(wide.scalar_type()) : inverse);
  if (bias.defined()) y = y + per_channel(bias.to(wide.scalar_type()));
  return {y.to(x.scalar_type()), merged};
}

}  // namespace detail

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  STRATA_CHECK(input.dim() >= 2 && input.size(1) == options.num_features(), kInvalidArgument,
               "[sync_batch_norm] forward: got a tensor of shape ", input.sizes(),
               "; expected [N, ", options.num_features(), ", ...]");
  STRATA_CHECK(input.is_floating_point(), kInvalidArgument, "[sync_batch_norm] forward: got ",
               input.scalar_type(), "; expected a floating dtype");
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  const bool by_batch = is_training() || !options.track_running_stats();
  if (!by_batch) {
    return at::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/false,
                          /*momentum=*/0, options.eps(), /*cudnn_enabled=*/true);
  }
  const ReplicaContext* context = get_replica_context();
  if (!input.is_cpu() && detail::alone(context) && input.numel() > input.size(1) &&
      options.momentum().has_value()) {
    // One pass, and the host waits for nothing.
    if (is_training() && options.track_running_stats()) num_batches_tracked.add_(1);
    return at::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true,
                          is_training() ? *options.momentum() : 0, options.eps(),
                          /*cudnn_enabled=*/true);
  }
  const auto [output, moments] =
      detail::sync_batch_norm(input, weight, bias, options.eps(), context);
  STRATA_CHECK(moments.count != 1, kInvalidArgument,
               "[sync_batch_norm] forward: got one value a channel in the whole global batch (",
               input.sizes(), " here); expected more than one when training");
  if (!is_training() || !options.track_running_stats() || moments.count == 0) return output;

  const at::NoGradGuard no_grad;
  num_batches_tracked.add_(1);
  const double momentum = options.momentum().has_value()
                              ? *options.momentum()
                              : 1.0 / static_cast<double>(num_batches_tracked.item<int64_t>());
  const auto move = [&](at::Tensor& running, const at::Tensor& value) {
    running.mul_(1 - momentum).add_(value.to(running.options()), momentum);
  };
  move(running_mean, moments.mean);
  move(running_var, detail::over_count(moments.m2, moments, 1));
  return output;
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "strata::SyncBatchNorm(" << options.num_features()
         << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum().has_value()) {
    stream << *options.momentum();
  } else {
    stream << "none";
  }
  stream << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ")";
}

}  // namespace strata
