#include "optim/step/device_update.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <numeric>

#include "optim/step/device_gradients.h"
#include "optim/step/flat_update.h"
#include "optim/step/remote_update.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"

namespace strata::optimizers {

DeviceUpdate::DeviceUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                           const std::vector<Entry>& entries, const ExtraSlots& extras)
    : rule_(rule), group_(group), extras_(extras), entries_(entries) {
  const at::NoGradGuard no_grad;
  // Where another optimizer has put them, or the only copy is elsewhere, parameters stay.
  const auto is_bound = [](const Entry& entry) {
    return entry.variable.state()->has_bound_storage();
  };
  is_flat_ = group_.placement().has_copy_per_replica() && std::ranges::none_of(entries_, is_bound);
  order_.resize(entries_.size());
  std::iota(order_.rbegin(), order_.rend(), size_t{0});
  for (size_t copy = 0; copy < num_copies(); ++copy) {
    copies_.push_back(make_copy(static_cast<int>(copy)));
  }
  if (is_flat_) move_parameters();
}

size_t DeviceUpdate::num_copies() const {
  if (!group_.placement().has_copy_per_replica()) return 1;
  return static_cast<size_t>(group_.num_local_replicas());
}

at::Tensor DeviceUpdate::parameter(size_t entry, int replica) const {
  const Variable& variable = entries_[entry].variable;
  return (replica == 0 ? variable.state()->central() : variable.on_replica(replica)).detach();
}

/// With its slots, as they are at first.
DeviceUpdate::Copy DeviceUpdate::make_copy(int replica) const {
  const at::Device device = parameter(0, replica).device();
  const at::ScalarType dtype = entries_[0].variable.dtype();
  std::vector<tensor::ArenaEntry> layouts;
  for (const size_t e : order_) layouts.push_back(layout_of(entries_[e].variable));
  Copy copy;
  copy.slots_of.resize(entries_.size());
  const int of_rule = rule_.num_slots();
  for (int slot = 0; slot < of_rule + extras_.count(); ++slot) {
    std::vector<tensor::ArenaEntry> shapes = layouts;
    for (tensor::ArenaEntry& each : shapes) {
      if (slot >= of_rule) break;
      std::vector<int64_t> shape = rule_.slot_shape(slot, each.sizes);
      if (shape != each.sizes) each = {.sizes = std::move(shape)};
    }
    copy.slots.emplace_back(std::move(shapes), dtype, device);
    const double initial = slot < of_rule ? rule_.slot_initial_value(slot) : 0;
    if (initial != 0) copy.slots.back().flat().fill_(initial);
    const bool starts_as_variable = slot < of_rule && rule_.slot_starts_as_variable(slot);
    for (size_t i = 0; i < order_.size(); ++i) {
      const at::Tensor view = copy.slots.back().view(static_cast<int64_t>(i));
      if (starts_as_variable) at::Tensor(view).copy_(parameter(order_[i], replica));
      copy.slots_of[order_[i]].push_back(view);
    }
  }
  if (!is_flat_) return copy;
  copy.gradients = tensor::Arena(std::move(layouts), dtype, device);
  copy.gradient_of.resize(entries_.size());
  for (size_t i = 0; i < order_.size(); ++i) {
    copy.gradient_of[order_[i]] = copy.gradients.view(static_cast<int64_t>(i));
  }
  return copy;
}

void DeviceUpdate::move_parameters() {
  const auto arenas = std::make_shared<std::vector<tensor::Arena>>();
  for (Copy& copy : copies_) {
    arenas->push_back(copy.gradients.make_like());
    copy.parameters = arenas->back().flat();
  }
  for (size_t i = 0; i < order_.size(); ++i) {
    std::vector<at::Tensor> homes;
    for (const tensor::Arena& arena : *arenas) homes.push_back(arena.view(static_cast<int64_t>(i)));
    entries_[order_[i]].variable.state()->bind_storage(homes, /*shared=*/false, arenas);
  }
}

/// Parameters and slots, into memory in another order.
void DeviceUpdate::move_all(const std::vector<size_t>& order) {
  const at::NoGradGuard no_grad;
  order_ = order;
  for (size_t copy = 0; copy < copies_.size(); ++copy) {
    Copy moved = make_copy(static_cast<int>(copy));
    std::vector<at::Tensor> targets;
    std::vector<at::Tensor> sources;
    for (size_t e = 0; e < entries_.size(); ++e) {
      const std::vector<at::Tensor>& to = moved.slots_of[e];
      const std::vector<at::Tensor>& from = copies_[copy].slots_of[e];
      targets.insert(targets.end(), to.begin(), to.end());
      sources.insert(sources.end(), from.begin(), from.end());
    }
    if (!targets.empty()) at::_foreach_copy_(targets, sources);
    copies_[copy] = std::move(moved);
  }
  move_parameters();
}

UpdatePass::GradientMemory DeviceUpdate::gradient_memory(const std::vector<size_t>& order) {
  if (!is_flat_) return {};
  if (order != order_) move_all(order);
  GradientMemory memory{.entries = order_, .arenas = {}};
  for (const Copy& copy : copies_) memory.arenas.push_back(copy.gradients);
  return memory;
}

/// New replicas get the first one's slots.
void DeviceUpdate::reshape() {
  const at::NoGradGuard no_grad;
  copies_.resize(std::min(copies_.size(), num_copies()));
  while (copies_.size() < num_copies()) {
    copies_.push_back(make_copy(static_cast<int>(copies_.size())));
    for (size_t slot = 0; slot < copies_[0].slots.size(); ++slot) {
      copies_.back().slots[slot].flat().copy_(copies_[0].slots[slot].flat());
    }
  }
  if (is_flat_) move_parameters();
}

std::vector<at::Tensor> DeviceUpdate::first_parameters() const {
  std::vector<at::Tensor> parameters;
  for (size_t e = 0; e < entries_.size(); ++e) parameters.push_back(parameter(e, 0));
  return parameters;
}

std::vector<double> DeviceUpdate::squared_norms(Step& step) {
  return squared_norms_of(step, first_parameters());
}

at::Tensor DeviceUpdate::squared_norms_on_gpu(Step& step) {
  return squared_norms_on_gpu_of(step, first_parameters());
}

bool DeviceUpdate::treats_all_alike(const Step& step) const {
  if (!is_flat_ || rule_.whole_variables()) return false;
  const double scale = step.gradients[0].scale;
  for (size_t e = 0; e < entries_.size(); ++e) {
    const EntryGradient& gradient = step.gradients[e];
    if (!gradient.used || gradient.rows || gradient.scale != scale) return false;
    if (step.weight_decay > 0 && entries_[e].decays != entries_[0].decays) return false;
  }
  return true;
}

at::Tensor DeviceUpdate::flat_gradient(const Step& step, int replica) {
  Copy& copy = copy_of(replica);
  std::vector<at::Tensor> targets;
  std::vector<at::Tensor> sources;
  for (size_t e = 0; e < entries_.size(); ++e) {
    at::Tensor source = unscaled_gradient_of(step.gradients[e], copy.gradient_of[e], replica);
    const at::Tensor& target = copy.gradient_of[e];
    const bool was_summed_there =
        source.is_alias_of(target) && source.storage_offset() == target.storage_offset();
    if (was_summed_there) continue;
    targets.push_back(target);
    sources.push_back(std::move(source));
  }
  if (!sources.empty()) at::_foreach_copy_(targets, sources, /*non_blocking=*/true);
  for (size_t e = 0; e < entries_.size(); ++e) {
    const at::Tensor& factor = step.gradients[e].factor;
    if (!factor.defined()) continue;
    at::Tensor& gradient = copy.gradient_of[e];
    gradient.mul_(factor.to(gradient.device(), gradient.scalar_type()));
  }
  return copy.gradients.flat();
}

void DeviceUpdate::accumulate(const Step& step, int replica) {
  if (!updates(replica)) return;
  const at::NoGradGuard no_grad;
  Copy& copy = copy_of(replica);
  if (treats_all_alike(step)) {
    copy.slots.back().flat().add_(flat_gradient(step, replica), step.gradients[0].scale);
    return;
  }
  for (size_t e = 0; e < entries_.size(); ++e) {
    const EntryGradient& gradient = step.gradients[e];
    if (!gradient.used) continue;
    copy.slots_of[e].back().add_(gradient_of(gradient, parameter(e, replica), replica),
                                 gradient.scale);
  }
}

void DeviceUpdate::update(const Step& step, int replica) {
  if (!updates(replica)) return;
  const at::NoGradGuard no_grad;
  if (!step.condition.defined()) return update_always(step, replica);
  // The host does not know whether, so it is done and perhaps undone.
  std::vector<at::Tensor> state = state_of(replica);
  std::vector<at::Tensor> before;
  for (const at::Tensor& each : state) before.push_back(each.clone());
  update_always(step, replica);
  const at::Tensor condition = step.condition.to(state[0].device());
  for (size_t i = 0; i < state.size(); ++i) {
    state[i].copy_(at::where(condition, state[i], before[i]));
  }
}

/// What an update writes.
std::vector<at::Tensor> DeviceUpdate::state_of(int replica) {
  std::vector<at::Tensor> state;
  for (tensor::Arena& slots : copy_of(replica).slots) state.push_back(slots.flat());
  if (is_flat_) {
    state.push_back(copy_of(replica).parameters);
  } else {
    for (size_t e = 0; e < entries_.size(); ++e) state.push_back(parameter(e, replica));
  }
  return state;
}

void DeviceUpdate::update_always(const Step& step, int replica) {
  Copy& copy = copy_of(replica);
  const auto modifiers = [&](size_t entry) {
    return tensor::UpdateModifiers{.gradient_scale = step.gradients[entry].scale,
                                   .clip_value = step.clip_value,
                                   .weight_decay = entries_[entry].decays ? step.weight_decay : 0};
  };
  const auto of_rule = [&](const std::vector<at::Tensor>& slots) {
    return std::vector<at::Tensor>(slots.begin(), slots.begin() + rule_.num_slots());
  };
  if (treats_all_alike(step)) {
    std::vector<at::Tensor> slots;
    for (int i = 0; i < rule_.num_slots(); ++i) {
      slots.push_back(copy.slots[static_cast<size_t>(i)].flat());
    }
    rule_.apply(copy.parameters, flat_gradient(step, replica), slots, modifiers(0), step.prepared);
  } else {
    for (size_t e = 0; e < entries_.size(); ++e) {
      if (!step.gradients[e].used) continue;
      at::Tensor parameter = this->parameter(e, replica);
      std::vector<at::Tensor> slots = of_rule(copy.slots_of[e]);
      update_variable(rule_, step, e, replica, parameter, slots, modifiers(e));
    }
  }
  if (step.clear_accumulators) copy.slots.back().flat().zero_();
}

void DeviceUpdate::average(const Step& step, int replica) {
  if (!updates(replica)) return;
  const at::NoGradGuard no_grad;
  Copy& copy = copy_of(replica);
  const auto slot = static_cast<size_t>(rule_.num_slots());
  const auto move = [&](at::Tensor mean, at::Tensor parameter) {
    mean.mul_(1 - step.average_rate).add_(parameter, step.average_rate);
    if (step.overwrite_by_average) parameter.copy_(mean);
  };
  if (is_flat_) return move(copy.slots[slot].flat(), copy.parameters);
  for (size_t e = 0; e < entries_.size(); ++e) {
    move(copy.slots_of[e][slot], parameter(e, replica));
  }
}

at::Tensor DeviceUpdate::slot(size_t entry, int slot) const {
  return copies_[0].slots_of[entry][static_cast<size_t>(slot)];
}

std::vector<at::Tensor> DeviceUpdate::slot_copies(size_t entry, int slot) const {
  std::vector<at::Tensor> all;
  for (const Copy& copy : copies_) all.push_back(copy.slots_of[entry][static_cast<size_t>(slot)]);
  return all;
}

std::unique_ptr<UpdatePass> make_update_pass(const tensor::UpdateRule& rule, ReplicaGroup& group,
                                             const std::vector<Entry>& entries,
                                             const ExtraSlots& extras) {
  const at::ScalarType dtype = entries[0].variable.dtype();
  const VariablePlacement& placement = group.placement();
  if (placement.store() != nullptr) {
    STRATA_CHECK(dtype == at::kFloat || dtype == at::kDouble, kUnimplemented, "[", rule.name(),
                 "] build: got '", entries[0].variable.name(), "' of ", c10::toString(dtype),
                 "; parameter servers hold float32 and float64");
    return std::make_unique<RemoteUpdate>(rule, group, entries, extras);
  }
  const bool flat = placement.updates_together(group);
  if (flat && (dtype == at::kFloat || dtype == at::kDouble)) {
    return std::make_unique<FlatUpdate>(rule, group, entries, extras);
  }
  return std::make_unique<DeviceUpdate>(rule, group, entries, extras);
}

}  // namespace strata::optimizers
