// A step of an optimizer: gradients, their sum over the replicas, the update.
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "collective/in_process/in_process.h"
#include "graph/host_call.h"
#include "graph/trace_key.h"
#include "optim/optimizer_impl.h"
#include "optim/step/row_gradient.h"
#include "runtime/group_exchange.h"
#include "runtime/variable_placement.h"
#include "strata/runtime/cross_device_ops.h"

namespace strata::optimizers {

void Optimizer::Impl::minimize(const at::Tensor& loss, const MinimizeOptions& options) {
  const ReplicaContext& context = replica("minimize");
  const int id = context.local_replica();
  const bool scales = dynamic_scale_ || loss_scale() != 1;
  if (!scales || !loss.defined()) {
    const auto share = [&] { return strata::detail::GradientShare{.weight = options.weight}; };
    return apply_gradients(gradients_of(loss, id, share), options);
  }
  const auto share = [&] { return strata::detail::GradientShare{.scale = 1 / loss_scale()}; };
  apply_gradients(gradients_of(scaled(loss, options.weight), id, share), {});
}

/// Gradients in 16 bits must be as large as one device's, so the loss is divided by all weights,
/// too.
at::Tensor Optimizer::Impl::scaled(const at::Tensor& loss, double weight) {
  check_weight(rule_->name(), weight);
  // A number as operators take it from a program, but on a GPU, where it may depend on a step of
  // which the host knows nothing yet.
  const bool is_there = dynamic_scale_ && loss.is_cuda();
  const at::TensorOptions options =
      is_there ? at::TensorOptions(at::toOpMathType(loss.scalar_type())).device(loss.device())
               : at::TensorOptions(at::kDouble);
  const auto as_operand = [is_there](const at::Tensor& factor) {
    factor.unsafeGetTensorImpl()->set_wrapped_number(!is_there);
    return factor;
  };
  const at::Tensor factor =
      graph::call_host("strata::loss_factor", {},
                       {{{}, at::typeMetaToScalarType(options.dtype()), options.device()}},
                       [this, weight, options, as_operand](const std::vector<at::Tensor>&) {
                         meet_for_loss_weight(weight);
                         return std::vector<at::Tensor>{as_operand(loss_factor(options))};
                       },
                       {weight})[0];
  return at::mul(loss, as_operand(factor));
}

/// The sum of the weights of all replicas, before the backward of any.
void Optimizer::Impl::meet_for_loss_weight(double weight) {
  const ReplicaContext& context = replica("minimize");
  context.synchronize(
      "minimize (scale)", &weight,
      [&](const std::vector<void*>& all) {
        std::vector<at::Tensor> local_values;
        for (const void* each : all) {
          local_values.push_back(at::scalar_tensor(*static_cast<const double*>(each), at::kDouble));
        }
        double sum = 0;
        for (const at::Tensor& each : detail::gather_over_group(*group_, local_values, "weights")) {
          sum += each.item<double>();
        }
        loss_weight_ = sum > 0 ? sum : 1;
      },
      reinterpret_cast<uintptr_t>(this));
}

/// What the loss is multiplied by, `[]`, the same number for all replicas. Where the last step is
/// awaited, the card chooses.
at::Tensor Optimizer::Impl::loss_factor(const at::TensorOptions& options) {
  const auto factor = [&](double scale) { return at::full({}, scale / loss_weight_, options); };
  if (!dynamic_scale_) return factor(loss_scale());
  const MutexLock lock(awaited_mutex_);
  if (!awaited_) return factor(dynamic_scale_->value());
  return at::where(awaited_->finite_there.to(options.device()), factor(dynamic_scale_->after(true)),
                   factor(dynamic_scale_->after(false)));
}

/// The variables' gradients; those of taps go where they belong.
std::vector<at::Tensor> Optimizer::Impl::gradients_of(
    const at::Tensor& loss, int local,
    const std::function<strata::detail::GradientShare()>& share) {
  const std::vector<strata::detail::GradientHook> taps = strata::detail::take_gradient_hooks();
  if (!taps.empty()) {
    graph::refuse_in_trace("a table on parameter servers takes a gradient",
                           "run the function eagerly");
  }
  std::vector<at::Tensor> leaves;
  for (const auto& tap : taps) leaves.push_back(tap.leaf);
  std::vector<at::Tensor> gradients =
      backward_to(rule_->name(), loss, variables_, local, takes_ready(local), leaves);
  for (size_t i = 0; i < taps.size(); ++i) {
    const at::Tensor& gradient = gradients[variables_.size() + i];
    if (gradient.defined()) taps[i].take(gradient, share());
  }
  gradients.resize(variables_.size());
  return gradients;
}

/// What takes gradients while backward still runs.
OnGradient Optimizer::Impl::takes_ready(int local) {
  return cards_ ? marks_ready(cards_, local) : marks_ready(reducer_, local);
}

void Optimizer::Impl::apply_gradients(std::vector<at::Tensor> gradients,
                                      const MinimizeOptions& options) {
  const ReplicaContext& context = replica("apply_gradients");
  const int id = context.local_replica();
  STRATA_CHECK(gradients.size() == variables_.size(), kInvalidArgument, "[", rule_->name(),
               "] apply_gradients: got ", gradients.size(), " gradients for ", variables_.size(),
               " variables; pass one each, undefined where it has no gradient");
  check_weight(rule_->name(), options.weight);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < gradients.size(); ++i) {
    at::Tensor& gradient = gradients[i];
    if (!gradient.defined() || gradient.is_sparse()) continue;
    const at::Tensor& parameter = variables_[i].on_replica(id);
    STRATA_CHECK(gradient.sizes() == parameter.sizes(), kInvalidArgument, "[", rule_->name(),
                 "] apply_gradients: got a gradient of shape ", gradient.sizes(), " for '",
                 variables_[i].name(), "' of shape ", parameter.sizes());
    if (gradient.scalar_type() != parameter.scalar_type())
      gradient = gradient.to(parameter.scalar_type());
    if (gradient.strides() != parameter.strides())
      gradient = at::zeros_like(parameter).copy_(gradient);
  }
  if (!graph::tracing()) return update_together(id, gradients, options.weight);
  // A pass that adds gradients where they are is done with them when the step is.
  const bool held = !std::ranges::all_of(parts_, [](const Part& p) { return p.pass->adds(); });
  graph::call_host(
      str_cat("strata::", rule_->name()), gradients, {},
      [this, id, weight = options.weight](const std::vector<at::Tensor>& given) {
        update_together(id, given, weight);
        return std::vector<at::Tensor>();
      },
      {options.weight}, held ? graph::HostInputs::kMayBeHeld : graph::HostInputs::kOfThisRun,
      weak_from_this());
}

/// By all replicas: what counts, and meets others, so that a trace has it as one node.
void Optimizer::Impl::update_together(int id, const std::vector<at::Tensor>& gradients,
                                      double weight) {
  const ReplicaContext& context = replica("apply_gradients");
  const at::NoGradGuard no_grad;
  if (cards_) {
    cards_->add(id, gradients);
  } else if (reducer_) {
    reducer_->add(id, gradients);
  }
  Contribution local_part{.gradients = gradients, .weight = weight};
  const auto key = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this));
  context.synchronize(
      "minimize", &local_part,
      [&](const std::vector<void*>& all) {
        contributions_.clear();
        for (void* each : all) contributions_.push_back(static_cast<const Contribution*>(each));
        prepare_step(contributions_);
      },
      key);
  if (cards_) cards_->wait(id);
  const auto reduce_for_norms = [&] {
    for (Part& part : parts_) part.pass->reduce_for_norms(part.step, id);
  };
  if (dynamic_scale_) {
    reduce_for_norms();
    context.synchronize(
        "minimize (finite)", nullptr, [&](const auto&) { check_finite(); }, key);
    if (!finite_) return;
  }
  if (accumulates()) {
    for (Part& part : parts_) part.pass->accumulate(part.step, id);
  }
  if (updates_now_) {
    if (accumulates()) {
      context.synchronize(
          "minimize (accumulated)", nullptr, [&](const auto&) { take_accumulated(); }, key);
      if (gatherer_) gatherer_->wait(id);
    }
    if (clips_norm()) {
      reduce_for_norms();
      context.synchronize(
          "minimize (norms)", nullptr, [&](const auto&) { scale_by_norms(); }, key);
    }
    for (Part& part : parts_) part.pass->update(part.step, id);
  }
  if (options_.use_ema) {
    for (Part& part : parts_) part.pass->average(part.step, id);
  }
  if (gatherer_) gatherer_->written(id);
  context.synchronize(
      "minimize (end)", nullptr, [&](const auto&) { finish_step(); }, key);
  if (gatherer_) gatherer_->wait(id);
}

void Optimizer::Impl::prepare_pass(Part& part, bool may_share) {
  if (part.sharded != nullptr && !part.owns) {
    part.owns = true;
    cut_shards(part);
  }
  if (shards() && !part.owns) {
    part.owns = true;
    std::vector<collective::Range> own;
    for (const size_t i : part.variables) own.push_back(reducer_->owned_range(i));
    const auto sharded = [&](size_t i) { return reducer_->shards(i); };
    if (std::ranges::any_of(part.variables, sharded)) part.pass->own(std::move(own));
  }
  if (!part.pass->prepare(may_share)) return;
  shared_ = true;
  if (part.kept || clips_norm() || dynamic_scale_) return;  // norms are of all elements
  part.kept = true;
  for (size_t i = 0; i < part.variables.size(); ++i) {
    reducer_->skip_ranges(part.variables[i], part.pass->elements_of_process(i));
  }
}

void Optimizer::Impl::prepare_step(const std::vector<const Contribution*>& local_parts) {
  settle();
  double weight = 0;
  bool may_share = false;
  std::vector<GradientSum> sums;  // over all processes
  if (reducer_) {
    std::vector<GradientReducer::Part> parts;
    for (const Contribution* each : local_parts) parts.push_back({&each->gradients, each->weight});
    GradientReducer::Result result = reducer_->reduce(parts);
    if (cards_) sum_on_cards(local_parts, result.is_here);
    weight = result.weight;
    may_share = result.by_callers;
    sums = std::move(result.sums);
  } else {
    for (const Contribution* each : local_parts) weight += each->weight;
    if (cards_) sum_on_cards(local_parts, {});
  }
  const double scale = (weight > 0 ? 1 / weight : 1) / loss_scale();
  const int64_t frequency = options_.ema_overwrite_frequency;
  updates_now_ = updates_at(iterations_);
  finite_ = true;
  if (carried_.defined()) {
    next_carried_ = rule_->next_scalar_state(carried_.item<double>(), updates());
  }
  for (Part& part : parts_) {
    prepare_pass(part, may_share);
    Step& step = part.step;
    step.scalars = {.learning_rate = options_.learning_rate(iterations_),
                    .iteration = updates(),
                    .scalar_state = next_carried_};
    step.clear_accumulators = false;
    step.condition.reset();
    step.average_rate = updates() == 0 ? 1 : 1 - options_.ema_momentum;
    step.overwrite_by_average =
        options_.use_ema && frequency > 0 && (updates() + 1) % frequency == 0;
    step.prepared = rule_->prepare(step.scalars);
    step.clip_value = options_.clipvalue;
    step.touched_rows_only = options_.touched_rows_only;
    step.weight_decay = part.weight_decay;
    step.weight = weight;
    step.gradients.resize(part.variables.size());
    for (size_t i = 0; i < part.variables.size(); ++i) {
      step.gradients[i].clear();  // a step that failed has left some
      step.gradients[i].scale = scale;
      const size_t variable = part.variables[i];
      if (reducer_) {
        fill(step.gradients[i], sums[variable], variable);
      } else {
        fill(step.gradients[i], local_parts, variable);
      }
    }
    if (clips_norm() || dynamic_scale_) part.pass->prepare_norms();
  }
  if (!reducer_) reduce_by_ops(local_parts);
}

void Optimizer::Impl::fill(EntryGradient& gradient, const GradientSum& sum, size_t variable) {
  gradient.used = sum.used;
  if (fill_from_cards(gradient, variable)) return;
  if (!sum.sparse.empty()) {
    gradient.rows = join_rows(sum.sparse, variables_[variable].name());
  } else if (sum.used) {
    gradient.sources = sum.dense;
  }
}

void Optimizer::Impl::fill(EntryGradient& gradient, const std::vector<const Contribution*>& all,
                           size_t variable) {
  if (fill_from_cards(gradient, variable)) {
    gradient.used = std::ranges::any_of(
        all, [&](const Contribution* each) { return each->gradients[variable].defined(); });
    return;
  }
  bool dense = false;
  bool sparse = false;
  const auto home = group_->placement().gradient_device(*group_);
  for (const Contribution* each : all) {
    const at::Tensor& value = each->gradients[variable];
    gradient.sources.push_back(home && value.defined() ? value.to(*home) : value);
    if (!value.defined()) continue;
    (value.is_sparse() ? sparse : dense) = true;
  }
  gradient.used = dense || sparse;
  if (sparse && !dense) {
    gradient.rows = join_rows(gradient.sources, variables_[variable].name());
    gradient.sources.clear();
  } else if (sparse) {
    for (at::Tensor& source : gradient.sources) {
      if (source.defined() && source.is_sparse()) source = source.to_dense().contiguous();
    }
  }
}

void Optimizer::Impl::sum_on_cards(const std::vector<const Contribution*>& all,
                                   const std::vector<bool>& is_elsewhere) {
  std::vector<const std::vector<at::Tensor>*> gradients;
  for (const Contribution* each : all) gradients.push_back(&each->gradients);
  cards_->finish(gradients, is_elsewhere);
}

/// The sums of a variable's gradients where they are, if that is on cards.
bool Optimizer::Impl::fill_from_cards(EntryGradient& gradient, size_t variable) {
  if (!cards_ || !cards_->has(variable)) return false;
  for (int local = 0; local < group_->num_local_replicas(); ++local) {
    gradient.sources.push_back(cards_->sum(variable, local));
  }
  return true;
}

/// Dense gradients that a pass does not add, through the strategy's CrossDeviceOps, one batch a
/// dtype; absent ones count as zero.
void Optimizer::Impl::reduce_by_ops(const std::vector<const Contribution*>& all) {
  if (all.size() == 1) return;
  if (group_->placement().gradient_device(*group_)) return reduce_at_home();
  for (Part& part : parts_) {
    if (part.pass->adds() && group_->cross_device_ops() == nullptr) continue;
    std::vector<Variable> variables;
    std::vector<std::vector<at::Tensor>> sources;
    std::vector<EntryGradient*> targets;
    for (size_t i = 0; i < part.variables.size(); ++i) {
      EntryGradient& gradient = part.step.gradients[i];
      if (!gradient.used || gradient.rows) continue;
      if (cards_ && cards_->has(part.variables[i])) continue;
      variables.push_back(variables_[part.variables[i]]);
      sources.push_back(std::move(gradient.sources));
      targets.push_back(&gradient);
    }
    const auto results = optimizers::reduce_by_ops(*group_, variables, std::move(sources));
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i]->sources = results[i].values();
      if (!group_->placement().updates_together(*group_)) continue;
      // The flat pass adds its sources: it gets one, laid out as the parameter is.
      const at::Tensor like = variables[i].on_replica(0).detach();
      at::Tensor result = results[i].get(0);
      if (result.strides() != like.strides()) result = at::zeros_like(like).copy_(result);
      targets[i]->sources = {result};
    }
  }
}

/// Gradients are on the device of the only copy of each variable: one sum, which need not travel.
void Optimizer::Impl::reduce_at_home() {
  for (Part& part : parts_) {
    for (EntryGradient& gradient : part.step.gradients) {
      if (!gradient.used || gradient.rows) continue;
      gradient.sources = {collective::reduce_in_order(gradient.sources, ReduceOp::kSum)};
    }
  }
}

/// With infinities or NaNs among the gradients the step does not take place, and the next has half
/// the scale.
void Optimizer::Impl::check_finite() {
  if (check_finite_on_gpu()) return;
  double sum = 0;
  for (Part& part : parts_) {
    for (const double square : part.pass->squared_norms(part.step)) sum += square;
  }
  finite_ = std::isfinite(sum);
  if (finite_) return;
  dynamic_scale_->failed();
  for (Part& part : parts_) part.step.gradients.clear();
}

/// On GPUs the cards decide, and the host learns it in the next step, when it has enqueued that
/// one's backward pass. Until then it takes the step for one that has taken place.
bool Optimizer::Impl::check_finite_on_gpu() {
  if (accumulates() || options_.use_ema) return false;
  at::Tensor sum;
  for (Part& part : parts_) {
    const at::Tensor norms = part.pass->squared_norms_on_gpu(part.step);
    if (!norms.defined()) return false;
    sum = sum.defined() ? sum + norms.sum() : norms.sum();
  }
  const at::Tensor finite = at::isfinite(sum);
  for (Part& part : parts_) part.step.condition = finite;
  const MutexLock lock(awaited_mutex_);
  AwaitedStep& awaited = awaited_.emplace();
  awaited.finite_there = finite;
  awaited.finite = at::empty({}, at::TensorOptions(at::kBool).pinned_memory(true));
  awaited.finite.copy_(finite, /*non_blocking=*/true);
  awaited.known.record(tensor::current_stream(finite.device()));
  awaited.iterations = iterations_;
  if (carried_.defined()) awaited.carried = carried_.item<double>();
  return true;
}

void Optimizer::Impl::settle() {
  const MutexLock lock(awaited_mutex_);
  if (!awaited_) return;
  // The optimizer's own state, which a step that is recorded finds as this leaves it.
  std::optional<graph::NoTraceGuard> no_trace;
  if (graph::tracing()) no_trace.emplace();
  awaited_->known.wait_on_host(tensor::StreamWait::kHostForFinite);
  if (awaited_->finite.item<bool>()) {
    dynamic_scale_->succeeded();
  } else {
    dynamic_scale_->failed();
    iterations_ = awaited_->iterations;
    if (carried_.defined()) carried_.fill_(awaited_->carried);
  }
  awaited_.reset();
}

/// The gradients of this step become the accumulators, in which they are.
void Optimizer::Impl::take_accumulated() {
  meet_processes("accumulated");
  std::vector<at::Tensor> whole;
  if (shards()) whole = whole_slots("gradient_accumulator");
  for (Part& part : parts_) {
    const int slot = part.rule->num_slots() + extras().count() - 1;
    if (shards_on_cards()) gather_slot_on_cards(part, slot);
    for (size_t i = 0; i < part.variables.size(); ++i) {
      EntryGradient& gradient = part.step.gradients[i];
      std::vector<at::Tensor> sums = part.pass->slot_copies(i, slot);
      if (!whole.empty() && reducer_->shards(part.variables[i])) sums = {whole[part.variables[i]]};
      // A variable without a gradient now may have had one before.
      gradient.used = gradient.used || sums[0].count_nonzero().item<int64_t>() > 0;
      gradient.sources = std::move(sums);
      gradient.rows.reset();
      gradient.scale = 1 / static_cast<double>(options_.gradient_accumulation_steps);
    }
    part.step.clear_accumulators = true;
  }
}

void Optimizer::Impl::scale_by_norms() {
  if (scale_by_norms_on_gpu()) return;
  double total = 0;
  for (Part& part : parts_) {
    const std::vector<double> squares = part.pass->squared_norms(part.step);
    for (size_t i = 0; i < squares.size(); ++i) {
      EntryGradient& gradient = part.step.gradients[i];
      const double square = squares[i] * gradient.scale * gradient.scale;
      total += square;
      if (options_.clipnorm > 0) {
        gradient.scale *= options_.clipnorm / std::max(std::sqrt(square), options_.clipnorm);
      }
    }
  }
  if (options_.global_clipnorm <= 0) return;
  const double factor =
      options_.global_clipnorm / std::max(std::sqrt(total), options_.global_clipnorm);
  for (Part& part : parts_) {
    for (EntryGradient& gradient : part.step.gradients) gradient.scale *= factor;
  }
}

/// The same where all gradients are on GPUs, and the host waits for nothing.
bool Optimizer::Impl::scale_by_norms_on_gpu() {
  std::vector<at::Tensor> squares;  // by part, [its variables]
  for (Part& part : parts_) {
    const double scale = part.step.gradients[0].scale;
    const auto has_other = [&](const EntryGradient& each) { return each.scale != scale; };
    if (std::ranges::any_of(part.step.gradients, has_other)) return false;
    const at::Tensor norms = part.pass->squared_norms_on_gpu(part.step);
    if (!norms.defined()) return false;
    squares.push_back(norms * (scale * scale));
  }
  const auto factor = [](double limit, const at::Tensor& square) {
    return at::full_like(square, limit).div_(square.sqrt().clamp_min_(limit));
  };
  at::Tensor all = at::cat(squares);
  at::Tensor factors = options_.clipnorm > 0 ? factor(options_.clipnorm, all) : at::ones_like(all);
  if (options_.global_clipnorm > 0) factors.mul_(factor(options_.global_clipnorm, all.sum()));
  int64_t next = 0;
  for (Part& part : parts_) {
    for (EntryGradient& gradient : part.step.gradients) gradient.factor = factors[next++];
  }
  return true;
}

void Optimizer::Impl::finish_step() {
  meet_processes("end of the step");
  const bool changed = updates_now_ || std::ranges::any_of(parts_, [](const Part& part) {
                         return part.step.overwrite_by_average;
                       });
  if (changed && shards()) reducer_->all_gather_owned(parameter_copies(), "variables");
  if (changed && shards_on_cards()) gather_parameters_on_cards();
  for (Part& part : parts_) {
    for (size_t i = 0; i < part.variables.size(); ++i) {
      const bool updated = updates_now_ && part.step.gradients[i].used;
      if (updated || part.step.overwrite_by_average) {
        variables_[part.variables[i]].state()->bump_version();
        part.pass->wrote(i);
      }
    }
    for (EntryGradient& gradient : part.step.gradients) gradient.clear();
    part.pass->end_step();
  }
  if (carried_.defined() && updates_now_) carried_.fill_(next_carried_);
  if (dynamic_scale_ && !is_awaited()) dynamic_scale_->succeeded();
  ++iterations_;
  if (accumulates()) return;
  for (const Part& part : parts_) iterations_ = part.pass->updates().value_or(iterations_);
}

}  // namespace strata::optimizers
