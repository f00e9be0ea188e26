#include "strata/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <map>

#include "core/host_effect.h"
#include "graph/trace_key.h"
#include "optim/optimizer_impl.h"
#include "runtime/context.h"
#include "runtime/variable_placement.h"

namespace strata::optimizers {
namespace {

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
  STRATA_CHECK(!options.touched_rows_only || options.gradient_accumulation_steps == 0,
               kInvalidArgument, "[", name, "] got touched_rows_only with ",
               "gradient_accumulation_steps ", options.gradient_accumulation_steps,
               ", whose sums have all rows; expected one of them");
}

}  // namespace

Optimizer::Impl::Impl(std::unique_ptr<tensor::UpdateRule> rule, OptimizerOptions options)
    : rule_(std::move(rule)),
      rule_of_left_out_(tensor::make_rule(tensor::rule_of_left_out(rule_->options()))),
      options_(std::move(options)) {
  check_options(rule_->name(), options_);
}

void Optimizer::Impl::build(std::vector<Variable> variables) {
  STRATA_CHECK(variables_.empty(), kFailedPrecondition, "[", rule_->name(),
               "] build: the optimizer has its variables already; make another one");
  check_variables(rule_->name(), variables);
  std::map<std::pair<at::ScalarType, bool>, std::vector<size_t>> by_dtype_and_rule;
  for (size_t i = 0; i < variables.size(); ++i) {
    by_dtype_and_rule[{variables[i].dtype(), is_left_out(variables[i])}].push_back(i);
  }
  variables_ = std::move(variables);
  part_of_variable_.resize(variables_.size());
  group_ = variables_[0].state()->group();
  group_->observe(shared_from_this());
  for (auto& [key, indices] : by_dtype_and_rule) {
    const bool left_out = key.second;
    const tensor::UpdateRule& rule = left_out ? *rule_of_left_out_ : *rule_;
    STRATA_CHECK(!left_out || group_->placement().store() == nullptr, kUnimplemented, "[",
                 rule_->name(), "] build: got '", variables_[indices[0]].name(),
                 "', which is left out of the rule, on parameter servers, which have one rule for "
                 "all; take another optimizer");
    std::vector<Entry> entries;
    for (const size_t i : indices) {
      const bool excluded = std::any_of(
          undecayed_.begin(), undecayed_.end(),
          [&](const auto& part) { return variables_[i].name().find(part) != std::string::npos; });
      entries.push_back({variables_[i], !excluded});
      part_of_variable_[i] = parts_.size();
    }
    parts_.push_back(
        {.variables = std::move(indices),
         .rule = &rule,
         .weight_decay = left_out ? options_.left_out_weight_decay : options_.weight_decay,
         .pass = nullptr,
         .step = {}});
    Part& part = parts_.back();
    // All parts are sharded, or none: who needs whole variables has all on one replica.
    auto sharded =
        rule_->whole_variables() ? nullptr : make_sharded_update(rule, *group_, entries, extras());
    if (sharded) {
      part.sharded = sharded.get();
      part.pass = std::move(sharded);
    } else {
      part.pass = make_update_pass(rule, *group_, entries, extras());
    }
  }
  make_exchange();
  // Other processes may have begun.
  for (const Part& part : parts_) iterations_ = part.pass->updates().value_or(iterations_);
  if (!rule_->carried_name().empty()) {
    carried_ = at::full({}, 1.0, at::TensorOptions().dtype(variables_[0].dtype()));
  }
}

void Optimizer::Impl::make_exchange() {
  reducer_.reset();
  make_card_reducer();
  for (Part& part : parts_) part.kept = part.owns = false;
  if (group_->communicator() == nullptr) return;
  // Else gradients are added on their way through the CPU.
  const bool flat = group_->placement().updates_together(*group_);
  reducer_ = std::make_unique<GradientReducer>(
      std::string(rule_->name()), variables_,
      ReducerOptions{.add = flat ? ReduceSite::kCaller : ReduceSite::kReducer,
                     .shard = group_->options().reduction.shard_optimizer_state && flat &&
                              !rule_->whole_variables(),
                     .whole_sums = clips_norm() || dynamic_scale_.has_value(),
                     .on_cards = cards_ != nullptr});
}

void Optimizer::Impl::make_card_reducer() {
  cards_.reset();
  gatherer_.reset();
  if (!group_->options().cards) return;
  const auto is_sharded = [](const Part& part) { return part.sharded != nullptr; };
  if (std::ranges::all_of(parts_, is_sharded)) {
    gatherer_ = std::make_unique<ShardGatherer>(group_->options().cards);
  }
  cards_ =
      std::make_unique<CardReducer>(std::string(rule_->name()), variables_,
                                    [this](const auto& order) { return memory_for_sums(order); });
}

/// The memory in which the passes read gradients.
std::vector<CardReducer::Part> Optimizer::Impl::memory_for_sums(const std::vector<size_t>& order) {
  std::vector<std::pair<size_t, size_t>> place(variables_.size());  // part and entry, by variable
  for (size_t p = 0; p < parts_.size(); ++p) {
    for (size_t e = 0; e < parts_[p].variables.size(); ++e) {
      place[parts_[p].variables[e]] = {p, e};
    }
  }
  std::vector<std::vector<size_t>> entries(parts_.size());
  for (const size_t variable : order)
    entries[place[variable].first].push_back(place[variable].second);
  std::vector<CardReducer::Part> memory;
  for (size_t p = 0; p < parts_.size(); ++p) {
    UpdatePass::GradientMemory of_pass = parts_[p].pass->gradient_memory(entries[p]);
    const bool is_of_pass = !of_pass.arenas.empty();
    std::vector<size_t> variables;
    for (const size_t entry : is_of_pass ? of_pass.entries : entries[p]) {
      variables.push_back(parts_[p].variables[entry]);
    }
    memory.push_back(is_of_pass ? CardReducer::Part{std::move(variables), std::move(of_pass.arenas)}
                                : cards_->own_part(std::move(variables)));
    // Norms are of all elements.
    memory.back().scatter = gatherer_ && is_of_pass && !clips_norm() && !dynamic_scale_;
  }
  return memory;
}

void Optimizer::Impl::on_resize() {
  settle();
  reducer_.reset();  // its thread may be in a call
  cards_.reset();
  shared_ = false;
  for (Part& part : parts_) part.pass->reshape();
  make_exchange();
}

void Optimizer::Impl::scale_dynamically(double initial_scale, int64_t growth_steps) {
  STRATA_CHECK(!dynamic_scale_, kInvalidArgument,
               "[loss_scale_optimizer] got an optimizer that scales the loss already");
  STRATA_CHECK(!shards(), kFailedPrecondition,
               "[loss_scale_optimizer] got an optimizer whose state is sharded, and that has made ",
               iterations_, " steps; put the loss scale around it before the first");
  dynamic_scale_.emplace(initial_scale, growth_steps);
  if (group_) make_exchange();  // now whole gradients are looked at
}

double Optimizer::Impl::loss_scale() {
  if (dynamic_scale_) {
    settle();
    const graph::NoTraceGuard read_now;  // the optimizer's own: a trace asks whether there is one
    return dynamic_scale_->value();
  }
  return options_.loss_scale_factor > 0 ? options_.loss_scale_factor : 1;
}

void Optimizer::Impl::exclude_from_weight_decay(const std::vector<std::string>& parts) {
  STRATA_CHECK(variables_.empty(), kFailedPrecondition, "[", rule_->name(),
               "] exclude_from_weight_decay: call it before the optimizer gets its variables");
  undecayed_ = parts;
}

void Optimizer::Impl::finalize_variable_values() {
  detail::require_cross_replica("finalize_variable_values");
  if (!options_.use_ema || iterations_ == 0) return;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> averages = whole_slots("average");
  for (size_t v = 0; v < variables_.size(); ++v) variables_[v].assign(averages[v]);
}

std::vector<std::string> Optimizer::Impl::slot_names(const tensor::UpdateRule& rule) const {
  std::vector<std::string> names;
  for (int slot = 0; slot < rule.num_slots(); ++slot) names.emplace_back(rule.slot_name(slot));
  if (extras().average) names.emplace_back("average");
  if (extras().accumulator) names.emplace_back("gradient_accumulator");
  return names;
}

std::vector<std::string> Optimizer::Impl::slot_names(size_t variable) const {
  return slot_names(*part_of(variable).rule);
}

std::vector<std::pair<std::string, std::vector<at::Tensor>>> Optimizer::Impl::slot_copies() const {
  std::vector<std::pair<std::string, std::vector<at::Tensor>>> result;
  for (size_t v = 0; v < variables_.size(); ++v) {
    const Part& part = part_of(v);
    const auto entry =
        static_cast<size_t>(std::ranges::find(part.variables, v) - part.variables.begin());
    const std::vector<std::string> names = slot_names(*part.rule);
    for (size_t slot = 0; slot < names.size(); ++slot) {
      result.emplace_back(str_cat(variables_[v].name(), "/", names[slot]),
                          part.pass->slot_copies(entry, static_cast<int>(slot)));
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

std::vector<std::pair<std::string, at::Tensor>> Optimizer::Impl::slots() const {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& [name, copies] : slot_copies()) result.emplace_back(name, copies[0]);
  const auto is_sharded = [](const Part& part) { return part.sharded != nullptr; };
  if (!shards() && std::ranges::none_of(parts_, is_sharded)) return result;
  // Rules that are sharded have the same slots for all variables.
  const std::vector<std::string> names = slot_names();
  for (size_t slot = 0; slot < names.size(); ++slot) {
    const std::vector<at::Tensor> whole = whole_slots(names[slot]);
    for (size_t v = 0; v < whole.size(); ++v) result[v * names.size() + slot].second = whole[v];
  }
  return result;
}

std::vector<at::Tensor> Optimizer::Impl::whole_slots(std::string_view name) const {
  if (shards() || shards_on_cards()) group_->mend();
  std::vector<std::vector<at::Tensor>> values(variables_.size());
  for (const Part& part : parts_) {
    const std::vector<std::string> names = slot_names(*part.rule);
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) continue;
    const auto slot = static_cast<int>(found - names.begin());
    std::vector<at::Tensor> gathered;
    try {
      gathered = gathered_slot(part, slot);
    } catch (...) {  // mostly in no run, which would tell the others
      group_->fail_step(Status::from_current_exception());
      throw;
    }
    for (size_t i = 0; i < part.variables.size(); ++i) {
      const bool is_whole = gathered.empty() || !gathered[i].defined();
      values[part.variables[i]] = {is_whole ? part.pass->slot(i, slot) : gathered[i]};
    }
  }
  if (shards()) {
    for (size_t v = 0; v < values.size(); ++v) {
      if (reducer_->shards(v)) values[v] = {values[v][0].clone()};
    }
    reducer_->all_gather_owned(values, std::string(name));
  }
  std::vector<at::Tensor> whole;
  for (const auto& value : values) whole.push_back(value.empty() ? at::Tensor() : value[0]);
  return whole;
}

void Optimizer::Impl::set_slot(size_t index, const at::Tensor& value) {
  if (group_) group_->mend();
  const auto all = slot_copies();
  STRATA_CHECK(index < all.size(), kOutOfRange, "[", rule_->name(), "] set_slot: got index ", index,
               "; expected 0 to ", all.size(), " (excluded)");
  const at::NoGradGuard no_grad;
  size_t variable = 0, slot = index;  // past all variables: a number beside the slots
  for (; variable < variables_.size(); ++variable) {
    const size_t own = num_slots_of(part_of(variable));
    if (slot < own) break;
    slot -= own;
  }
  const bool is_number = variable == variables_.size();
  const bool sharded = !is_number && shards() && reducer_->shards(variable);
  meet_processes("set_slot");  // `value` may have been made of what is overwritten now
  for (const at::Tensor& copy : all[index].second) {
    STRATA_CHECK(copy.sizes() == value.sizes(), kInvalidArgument, "[", rule_->name(),
                 "] set_slot: got shape ", value.sizes(), " for '", all[index].first, "' of shape ",
                 copy.sizes());
    if (!is_number && set_slot_on_cards(variable, static_cast<int>(slot), value)) break;
    if (!sharded) {
      copy.copy_(value);
      continue;
    }
    const collective::Range own = reducer_->owned_range(variable);
    const auto own_part = [own](const at::Tensor& of) {
      return of.as_strided({own.size()}, {1}, of.storage_offset() + own.begin);
    };
    own_part(copy).copy_(own_part(at::empty_like(copy).copy_(value)));
  }
  meet_processes("set_slot");
}

std::vector<std::vector<at::Tensor>> Optimizer::Impl::parameter_copies() const {
  std::vector<std::vector<at::Tensor>> all;
  for (const Variable& variable : variables_) {
    all.emplace_back();
    const int copies = variable.state()->shares_storage() ? 1 : group_->num_local_replicas();
    for (int r = 0; r < copies; ++r) all.back().push_back(variable.on_replica(r).detach());
  }
  return all;
}

void Optimizer::Impl::meet_processes(std::string_view where) {
  if (!shared_) return;
  group_->communicator()->barrier({.name = str_cat(rule_->name(), ", ", where)});
}

Optimizer::Optimizer(const tensor::RuleOptions& rule, OptimizerOptions options)
    : impl_(std::make_shared<Impl>(tensor::make_rule(rule), std::move(options))) {}
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
void Optimizer::finalize_variable_values() {
  impl_->settle();
  impl_->finalize_variable_values();
}
std::vector<std::string> Optimizer::slot_names() const { return impl_->slot_names(); }
std::vector<std::string> Optimizer::slot_names(size_t variable) const {
  STRATA_CHECK(variable < variables().size(), kOutOfRange, "[", name(),
               "] slot_names: got variable ", variable, " of ", variables().size());
  return impl_->slot_names(variable);
}

int64_t Optimizer::iterations() const {
  strata::detail::note_host_effect("the number of steps so far is read");
  return impl_->finished();
}
void Optimizer::set_iterations(int64_t iterations) { impl_->set_finished(iterations); }

double Optimizer::learning_rate() const {
  strata::detail::note_host_effect("the learning rate is read");
  return impl_->options_.learning_rate(impl_->finished());
}
bool Optimizer::follows_schedule() const { return !impl_->options_.learning_rate.is_constant(); }
void Optimizer::set_learning_rate(double learning_rate) {
  strata::detail::note_host_effect("the learning rate is set");
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
  impl_->refresh();
  impl_->settle();
  return impl_->slots();
}
void Optimizer::set_slot(size_t index, const at::Tensor& value) {
  impl_->settle();
  impl_->set_slot(index, value);
}
std::string_view Optimizer::name() const { return impl_->rule_->name(); }
const tensor::UpdateRule& Optimizer::rule() const { return *impl_->rule_; }
const OptimizerOptions& Optimizer::common_options() const { return impl_->options_; }

}  // namespace strata::optimizers
