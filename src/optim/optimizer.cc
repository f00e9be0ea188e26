#include "strata/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "optim/dynamic_scale.h"
#include "optim/gradients.h"
#include "optim/row_gradient.h"
#include "optim/step.h"
#include "strata/collective/shared.h"
#include "strata/runtime/cross_device_ops.h"

namespace strata::optimizers {
namespace {

/// One replica's part of a step, as the others see it.
struct Contribution {
  std::vector<at::Tensor> gradients;  // by variable, undefined: none
  double weight = 0;
};

/// Variables of one dtype, and their pass.
struct Part {
  std::vector<size_t> variables;
  std::unique_ptr<UpdatePass> pass;
  Step step;
};

void check_options(std::string_view name, const OptimizerOptions& options) {
  const int kinds =
      (options.clipnorm > 0) + (options.clipvalue > 0) + (options.global_clipnorm > 0);
  STRATA_CHECK(kinds <= 1, kInvalidArgument, "[", name,
               "] got several of clipnorm, clipvalue and global_clipnorm; expected at most one");
  for (const double value :
       {options.clipnorm, options.clipvalue, options.global_clipnorm, options.weight_decay}) {
    STRATA_CHECK(value >= 0, kInvalidArgument, "[", name, "] got ", value,
                 " for a clipping or weight decay option; expected 0 (off) or more");
  }
  STRATA_CHECK(options.ema_momentum >= 0 && options.ema_momentum <= 1, kInvalidArgument, "[", name,
               "] got ema_momentum ", options.ema_momentum, "; expected a value in [0, 1]");
  STRATA_CHECK(options.ema_overwrite_frequency >= 0, kInvalidArgument, "[", name,
               "] got ema_overwrite_frequency ", options.ema_overwrite_frequency,
               "; expected 0 (never) or more");
  STRATA_CHECK(options.loss_scale_factor >= 0, kInvalidArgument, "[", name,
               "] got loss_scale_factor ", options.loss_scale_factor, "; expected 0 (off) or more");
  STRATA_CHECK(options.gradient_accumulation_steps == 0 || options.gradient_accumulation_steps >= 2,
               kInvalidArgument, "[", name, "] got gradient_accumulation_steps ",
               options.gradient_accumulation_steps, "; expected 0 (off), or 2 or more");
}

}  // namespace

class Optimizer::Impl {
 public:
  Impl(std::unique_ptr<tensor::UpdateRule> rule, OptimizerOptions options)
      : rule_(std::move(rule)), options_(std::move(options)) {
    check_options(rule_->name(), options_);
  }

  void build(std::vector<Variable> variables);
  void minimize(const at::Tensor& loss, const MinimizeOptions& options);
  void apply_gradients(std::vector<at::Tensor> gradients, const MinimizeOptions& options);
  std::vector<std::pair<std::string, std::vector<at::Tensor>>> slot_copies() const;
  void set_slot(size_t index, const at::Tensor& value);
  std::vector<std::string> slot_names() const;
  void exclude_from_weight_decay(const std::vector<std::string>& parts);
  void finalize_variable_values();
  void scale_dynamically(double initial_scale, int64_t growth_steps);
  double loss_scale() const;
  bool scales_dynamically() const { return dynamic_scale_.has_value(); }

  const std::unique_ptr<tensor::UpdateRule> rule_;
  OptimizerOptions options_;
  std::vector<Variable> variables_;
  int64_t iterations_ = 0;

 private:
  const ReplicaContext& replica(std::string_view call) const {
    return replica_of(rule_->name(), call, variables_);
  }
  bool clips_norm() const { return options_.clipnorm > 0 || options_.global_clipnorm > 0; }
  bool accumulates() const { return options_.gradient_accumulation_steps > 0; }
  ExtraSlots extras() const { return {.average = options_.use_ema, .accumulator = accumulates()}; }
  int64_t updates() const {  // that have been finished
    return accumulates() ? iterations_ / options_.gradient_accumulation_steps : iterations_;
  }
  void prepare_step(const std::vector<const Contribution*>& all);
  void fill(EntryGradient& gradient, const std::vector<const Contribution*>& all, size_t variable);
  void reduce_by_ops(const std::vector<const Contribution*>& all);
  void check_finite();
  void take_accumulated();
  void scale_by_norms();
  void finish_step();

  std::shared_ptr<ReplicaGroup> group_;
  std::vector<Part> parts_;
  std::vector<std::string> undecayed_;
  std::optional<DynamicScale> dynamic_scale_;
  at::Tensor carried_;       // the rule's number; undefined if it has none
  double next_carried_ = 0;  // its value after this step

  // Of the present step; written in meetings.
  bool updates_now_ = true;
  bool finite_ = true;
  double loss_factor_ = 1;
};

void Optimizer::Impl::build(std::vector<Variable> variables) {
  STRATA_CHECK(variables_.empty(), kFailedPrecondition, "[", rule_->name(),
               "] build: the optimizer has its variables already; make another one");
  check_variables(rule_->name(), variables);
  std::map<at::ScalarType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < variables.size(); ++i) by_dtype[variables[i].dtype()].push_back(i);
  variables_ = std::move(variables);
  group_ = variables_[0].state()->group();
  for (auto& [dtype, indices] : by_dtype) {
    std::vector<Entry> entries;
    for (const size_t i : indices) {
      const bool excluded = std::any_of(
          undecayed_.begin(), undecayed_.end(),
          [&](const auto& part) { return variables_[i].name().find(part) != std::string::npos; });
      entries.push_back({variables_[i], !excluded});
    }
    parts_.push_back(
        {std::move(indices), make_update_pass(*rule_, *group_, entries, extras()), {}});
  }
  if (!rule_->carried_name().empty()) {
    carried_ = at::full({}, 1.0, at::TensorOptions().dtype(variables_[0].dtype()));
  }
}

void Optimizer::Impl::scale_dynamically(double initial_scale, int64_t growth_steps) {
  STRATA_CHECK(!dynamic_scale_, kInvalidArgument,
               "[loss_scale_optimizer] got an optimizer that scales the loss already");
  dynamic_scale_.emplace(initial_scale, growth_steps);
}

double Optimizer::Impl::loss_scale() const {
  if (dynamic_scale_) return dynamic_scale_->value();
  return options_.loss_scale_factor > 0 ? options_.loss_scale_factor : 1;
}

void Optimizer::Impl::exclude_from_weight_decay(const std::vector<std::string>& parts) {
  STRATA_CHECK(variables_.empty(), kFailedPrecondition, "[", rule_->name(),
               "] exclude_from_weight_decay: call it before the optimizer gets its variables");
  undecayed_ = parts;
}

void Optimizer::Impl::minimize(const at::Tensor& loss, const MinimizeOptions& options) {
  const ReplicaContext& context = replica("minimize");
  const int id = context.replica_id_in_sync_group();
  if (loss_scale() == 1 || !loss.defined()) {
    apply_gradients(backward_to(rule_->name(), loss, variables_, id), options);
    return;
  }
  // Gradients in 16 bits must be as large as one device's, so the loss is divided first.
  check_weight(rule_->name(), options.weight);
  double weight = options.weight;
  context.meet(
      "minimize (scale)", &weight,
      [&](const std::vector<void*>& all) {
        double sum = 0;
        for (const void* each : all) sum += *static_cast<const double*>(each);
        loss_factor_ = loss_scale() / (sum > 0 ? sum : 1);
      },
      reinterpret_cast<uintptr_t>(this));
  apply_gradients(backward_to(rule_->name(), at::mul(loss, loss_factor_), variables_, id), {});
}

void Optimizer::Impl::apply_gradients(std::vector<at::Tensor> gradients,
                                      const MinimizeOptions& options) {
  const ReplicaContext& context = replica("apply_gradients");
  const int id = context.replica_id_in_sync_group();
  STRATA_CHECK(gradients.size() == variables_.size(), kInvalidArgument, "[", rule_->name(),
               "] apply_gradients: got ", gradients.size(), " gradients for ", variables_.size(),
               " variables; pass one each, undefined where there is none");
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

  Contribution mine{.gradients = std::move(gradients), .weight = options.weight};
  const auto key = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this));
  context.meet(
      "minimize", &mine,
      [&](const std::vector<void*>& all) {
        std::vector<const Contribution*> contributions;
        for (void* each : all) contributions.push_back(static_cast<const Contribution*>(each));
        prepare_step(contributions);
      },
      key);
  const auto reduce_for_norms = [&] {
    for (Part& part : parts_) part.pass->reduce_for_norms(part.step, id);
  };
  if (dynamic_scale_) {
    reduce_for_norms();
    context.meet(
        "minimize (finite)", nullptr, [&](const auto&) { check_finite(); }, key);
    if (!finite_) return;
  }
  if (accumulates()) {
    for (Part& part : parts_) part.pass->accumulate(part.step, id);
  }
  if (updates_now_) {
    if (accumulates()) {
      context.meet(
          "minimize (accumulated)", nullptr, [&](const auto&) { take_accumulated(); }, key);
    }
    if (clips_norm()) {
      reduce_for_norms();
      context.meet(
          "minimize (norms)", nullptr, [&](const auto&) { scale_by_norms(); }, key);
    }
    for (Part& part : parts_) part.pass->update(part.step, id);
  }
  if (options_.use_ema) {
    for (Part& part : parts_) part.pass->average(part.step, id);
  }
  context.meet(
      "minimize (end)", nullptr, [&](const auto&) { finish_step(); }, key);
}

void Optimizer::Impl::prepare_step(const std::vector<const Contribution*>& all) {
  double weight = 0;
  for (const Contribution* each : all) weight += each->weight;
  const double scale = (weight > 0 ? 1 / weight : 1) / loss_scale();
  const int64_t steps = options_.gradient_accumulation_steps;
  const int64_t frequency = options_.ema_overwrite_frequency;
  updates_now_ = !accumulates() || (iterations_ + 1) % steps == 0;
  finite_ = true;
  if (carried_.defined()) {
    next_carried_ = rule_->next_carried(carried_.item<double>(), updates());
  }
  for (Part& part : parts_) {
    Step& step = part.step;
    step.scalars = {.learning_rate = options_.learning_rate(iterations_),
                    .iteration = updates(),
                    .carried = next_carried_};
    step.clear_accumulators = false;
    step.average_rate = updates() == 0 ? 1 : 1 - options_.ema_momentum;
    step.overwrite_by_average =
        options_.use_ema && frequency > 0 && (updates() + 1) % frequency == 0;
    step.prepared = rule_->prepare(step.scalars);
    step.clip_value = options_.clipvalue;
    step.weight_decay = options_.weight_decay;
    step.gradients.assign(part.variables.size(), {});
    for (size_t i = 0; i < part.variables.size(); ++i) {
      step.gradients[i].scale = scale;
      fill(step.gradients[i], all, part.variables[i]);
    }
    if (clips_norm() || dynamic_scale_) part.pass->prepare_norms();
  }
  if (group_->cross_device_ops() || !group_->all_cpu()) reduce_by_ops(all);
}

void Optimizer::Impl::fill(EntryGradient& gradient, const std::vector<const Contribution*>& all,
                           size_t variable) {
  bool dense = false;
  bool sparse = false;
  for (const Contribution* each : all) {
    const at::Tensor& value = each->gradients[variable];
    gradient.sources.push_back(value);
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

/// Dense gradients through the strategy's CrossDeviceOps, one batch a dtype; absent ones count as
/// zero.
void Optimizer::Impl::reduce_by_ops(const std::vector<const Contribution*>& all) {
  if (all.size() == 1) return;
  for (Part& part : parts_) {
    std::vector<Variable> variables;
    std::vector<std::vector<at::Tensor>> sources;
    std::vector<EntryGradient*> targets;
    for (size_t i = 0; i < part.variables.size(); ++i) {
      EntryGradient& gradient = part.step.gradients[i];
      if (!gradient.used || gradient.rows) continue;
      variables.push_back(variables_[part.variables[i]]);
      sources.push_back(std::move(gradient.sources));
      targets.push_back(&gradient);
    }
    const auto results = optimizers::reduce_by_ops(*group_, variables, std::move(sources));
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i]->sources = results[i].values();
      if (!group_->all_cpu()) continue;
      // The flat pass adds its sources: it gets one, laid out as the parameter is.
      const at::Tensor like = variables[i].on_replica(0).detach();
      at::Tensor result = results[i].get(0);
      if (result.strides() != like.strides()) result = at::zeros_like(like).copy_(result);
      targets[i]->sources = {result};
    }
  }
}

/// With infinities or NaNs among the gradients the step does not take place, and the next has half
/// the scale.
void Optimizer::Impl::check_finite() {
  double sum = 0;
  for (Part& part : parts_) {
    for (const double square : part.pass->squared_norms(part.step)) sum += square;
  }
  finite_ = std::isfinite(sum);
  if (finite_) return;
  dynamic_scale_->failed();
  for (Part& part : parts_) part.step.gradients.clear();
}

/// The gradients of this step become the accumulators, in which they are.
void Optimizer::Impl::take_accumulated() {
  for (Part& part : parts_) {
    const int slot = rule_->num_slots() + extras().count() - 1;
    for (size_t i = 0; i < part.variables.size(); ++i) {
      EntryGradient& gradient = part.step.gradients[i];
      std::vector<at::Tensor> sums = part.pass->slot_copies(i, slot);
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

void Optimizer::Impl::finish_step() {
  for (Part& part : parts_) {
    for (size_t i = 0; i < part.variables.size(); ++i) {
      const bool updated = updates_now_ && part.step.gradients[i].used;
      if (updated || part.step.overwrite_by_average) {
        variables_[part.variables[i]].state()->note_write();
      }
    }
    part.step.gradients.clear();
  }
  if (carried_.defined() && updates_now_) carried_.fill_(next_carried_);
  if (dynamic_scale_) dynamic_scale_->succeeded();
  ++iterations_;
}

void Optimizer::Impl::finalize_variable_values() {
  detail::require_cross_replica("finalize_variable_values");
  if (!options_.use_ema || iterations_ == 0) return;
  const at::NoGradGuard no_grad;
  const int slot = rule_->num_slots();
  for (const Part& part : parts_) {
    for (size_t i = 0; i < part.variables.size(); ++i) {
      Variable& variable = variables_[part.variables[i]];
      variable.assign(part.pass->slot(i, slot));
    }
  }
}

std::vector<std::string> Optimizer::Impl::slot_names() const {
  std::vector<std::string> names;
  for (int slot = 0; slot < rule_->num_slots(); ++slot) names.emplace_back(rule_->slot_name(slot));
  if (extras().average) names.emplace_back("average");
  if (extras().accumulator) names.emplace_back("gradient_accumulator");
  return names;
}

std::vector<std::pair<std::string, std::vector<at::Tensor>>> Optimizer::Impl::slot_copies() const {
  std::vector<std::pair<std::string, std::vector<at::Tensor>>> result;
  const std::vector<std::string> names = slot_names();
  for (size_t v = 0; v < variables_.size(); ++v) {
    for (const Part& part : parts_) {
      const auto found = std::find(part.variables.begin(), part.variables.end(), v);
      if (found == part.variables.end()) continue;
      const auto entry = static_cast<size_t>(found - part.variables.begin());
      for (size_t slot = 0; slot < names.size(); ++slot) {
        result.emplace_back(str_cat(variables_[v].name(), "/", names[slot]),
                            part.pass->slot_copies(entry, static_cast<int>(slot)));
      }
    }
  }
  const auto add_number = [&](std::string_view name, const at::Tensor& number) {
    result.emplace_back(name, std::vector<at::Tensor>{number});
  };
  if (carried_.defined()) add_number(rule_->carried_name(), carried_);
  if (dynamic_scale_) {
    add_number("step_counter", dynamic_scale_->counter());
    add_number("dynamic_scale", dynamic_scale_->scale());
  }
  return result;
}

void Optimizer::Impl::set_slot(size_t index, const at::Tensor& value) {
  const auto all = slot_copies();
  STRATA_CHECK(index < all.size(), kOutOfRange, "[", rule_->name(), "] set_slot: got index ", index,
               "; expected 0 to ", all.size(), " (excluded)");
  const at::NoGradGuard no_grad;
  for (const at::Tensor& copy : all[index].second) {
    STRATA_CHECK(copy.sizes() == value.sizes(), kInvalidArgument, "[", rule_->name(),
                 "] set_slot: got shape ", value.sizes(), " for '", all[index].first, "' of shape ",
                 copy.sizes());
    copy.copy_(value);
  }
}

Optimizer::Optimizer(std::unique_ptr<tensor::UpdateRule> rule, OptimizerOptions options)
    : impl_(std::make_shared<Impl>(std::move(rule), std::move(options))) {}
Optimizer::Optimizer(Optimizer& other, double initial_scale, int64_t growth_steps)
    : impl_(other.impl_) {
  impl_->scale_dynamically(initial_scale, growth_steps);
}
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

void Optimizer::build(std::vector<Variable> variables) { impl_->build(std::move(variables)); }
void Optimizer::minimize(const at::Tensor& loss, const MinimizeOptions& options) {
  impl_->minimize(loss, options);
}
void Optimizer::apply_gradients(std::vector<at::Tensor> gradients, const MinimizeOptions& options) {
  impl_->apply_gradients(std::move(gradients), options);
}

at::Tensor Optimizer::scale_loss(const at::Tensor& loss) const {
  return at::mul(loss, impl_->loss_scale());
}
bool Optimizer::scales_dynamically() const { return impl_->scales_dynamically(); }
void Optimizer::finalize_variable_values() { impl_->finalize_variable_values(); }
std::vector<std::string> Optimizer::slot_names() const { return impl_->slot_names(); }

int64_t Optimizer::iterations() const { return impl_->iterations_; }
void Optimizer::set_iterations(int64_t iterations) { impl_->iterations_ = iterations; }

double Optimizer::learning_rate() const {
  return impl_->options_.learning_rate(impl_->iterations_);
}
bool Optimizer::follows_schedule() const { return !impl_->options_.learning_rate.is_constant(); }
void Optimizer::set_learning_rate(double learning_rate) {
  STRATA_CHECK(!follows_schedule(), kFailedPrecondition, "[", name(),
               "] set_learning_rate: the rate follows a schedule; make the optimizer with a number "
               "to set it");
  impl_->options_.learning_rate = learning_rate;
}

void Optimizer::exclude_from_weight_decay(const std::vector<std::string>& parts) {
  impl_->exclude_from_weight_decay(parts);
}

const std::vector<Variable>& Optimizer::variables() const { return impl_->variables_; }
std::vector<std::pair<std::string, at::Tensor>> Optimizer::slots() const {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& [name, copies] : impl_->slot_copies()) result.emplace_back(name, copies[0]);
  return result;
}
void Optimizer::set_slot(size_t index, const at::Tensor& value) { impl_->set_slot(index, value); }
std::string_view Optimizer::name() const { return impl_->rule_->name(); }

}  // namespace strata::optimizers
