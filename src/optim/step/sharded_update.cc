#include "optim/step/sharded_update.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "optim/step/device_gradients.h"
#include "optim/step/flat_storage.h"
#include "optim/step/update_operator.h"
#include "runtime/variable_placement.h"
#include "strata/core/error.h"

namespace strata::optimizers {
namespace {

at::Tensor slice(const tensor::Arena& arena, const collective::Range& elements) {
  return arena.flat().narrow(0, elements.begin, elements.size());
}

/// Elements of a tensor that is laid out as `like`, in the order of its memory.
at::Tensor elements_of(const at::Tensor& tensor, const collective::Range& elements) {
  return in_memory_order(tensor).slice(0, elements.begin, elements.end);
}

}  // namespace

ShardedUpdate::ShardedUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                             const std::vector<Entry>& entries, const ExtraSlots& extras)
    : rule_(rule),
      group_(group),
      extras_(extras),
      entries_(entries),
      replicas_(local_replicas()),
      is_whole_(entries.size(), 1),
      host_(make_host_slots()),
      is_known_(host_.size(), std::vector<char>(entries.size(), 1)) {
  const at::NoGradGuard no_grad;
  std::vector<size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  set_order(order);
}

/// The parameters move to arenas in this order. Nothing is cut.
void ShardedUpdate::set_order(const std::vector<size_t>& order) {
  order_ = order;
  place_.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) place_[order[i]] = static_cast<int64_t>(i);
  copies_.clear();
  for (size_t local = 0; local < replicas_.size(); ++local) {
    copies_.push_back(make_copy(static_cast<int>(local)));
  }
  move_parameters();
}

std::vector<int> ShardedUpdate::local_replicas() const {
  std::vector<int> ids;
  for (int local = 0; local < group_.num_local_replicas(); ++local) {
    ids.push_back(group_.replica_id(local));
  }
  return ids;
}

/// Without slots.
ShardedUpdate::Copy ShardedUpdate::make_copy(int local) const {
  std::vector<tensor::ArenaEntry> layouts;
  for (const size_t e : order_) layouts.push_back(layout_of(entries_[e].variable));
  Copy copy;
  // Buckets are runs of tensors, of which each replica has an equal part, in whole lines of memory.
  constexpr int64_t kLine = 64;
  const at::ScalarType dtype = entries_[0].variable.dtype();
  const int64_t line = kLine / static_cast<int64_t>(c10::elementSize(dtype));
  copy.gradients = tensor::Arena(std::move(layouts), dtype, group_.device(local).physical,
                                 line * group_.num_replicas());
  copy.parameters = copy.gradients.make_like();
  return copy;
}

void ShardedUpdate::move_parameters() {
  const auto arenas = std::make_shared<std::vector<tensor::Arena>>(parameter_arenas());
  for (size_t e = 0; e < entries_.size(); ++e) {
    std::vector<at::Tensor> homes;
    for (const tensor::Arena& arena : *arenas) homes.push_back(arena.view(place_of(e)));
    entries_[e].variable.state()->bind_storage(homes, /*shared=*/false, arenas);
  }
}

std::vector<tensor::Arena> ShardedUpdate::make_host_slots() const {
  std::vector<tensor::ArenaEntry> layouts;
  for (const Entry& entry : entries_) layouts.push_back(layout_of(entry.variable));
  std::vector<tensor::Arena> slots;
  for (int slot = 0; slot < num_slots(); ++slot) {
    slots.emplace_back(layouts, entries_[0].variable.dtype());
    const double initial = slot < rule_.num_slots() ? rule_.slot_initial_value(slot) : 0;
    if (initial != 0) slots.back().flat().fill_(initial);
    if (slot < rule_.num_slots() && rule_.slot_starts_as_variable(slot)) {
      copy_variables(entries_, slots.back());
    }
  }
  return slots;
}

std::vector<ShardedUpdate::Block> ShardedUpdate::blocks_of(const CardShards& shards,
                                                           int replica) const {
  const tensor::Arena& arena = copies_[0].gradients;
  std::vector<Block> blocks;
  int64_t next = 0;
  for (size_t b = 0; b < shards.buckets.size(); ++b) {
    Block block{.elements = shards.part(b, replica), .slot_begin = next, .pieces = {}};
    for (size_t e = 0; e < entries_.size(); ++e) {
      const int64_t offset = arena.offset(place_of(e));
      const int64_t end = offset + arena.size(place_of(e));
      const int64_t from = std::max(offset, block.elements.begin);
      const int64_t to = std::min(end, block.elements.end);
      if (from >= to) continue;
      block.pieces.push_back({.entry = e,
                              .of_entry = {.begin = from - offset, .end = to - offset},
                              .begin = from,
                              .slot_begin = next + from - block.elements.begin});
    }
    next += block.elements.size();
    blocks.push_back(std::move(block));
  }
  return blocks;
}

void ShardedUpdate::check_known(size_t entry, int slot) const {
  STRATA_CHECK(
      is_known_[static_cast<size_t>(slot)][entry], kFailedPrecondition, "[", rule_.name(),
      "] the optimizer's state of '", entries_[entry].variable.name(),
      "' is sharded, and this worker has lost what others kept of it; restore a checkpoint "
      "first");
}

void ShardedUpdate::cut(const CardShards& shards) {
  const at::NoGradGuard no_grad;
  const tensor::Arena& arena = copies_[0].gradients;
  for (size_t e = 0; e < entries_.size(); ++e) {
    const int64_t offset = arena.offset(place_of(e));
    is_whole_[e] = std::ranges::none_of(shards.buckets, [&](const collective::Range& bucket) {
      return bucket.begin <= offset && offset < bucket.end;
    });
    for (int slot = 0; slot < num_slots(); ++slot) check_known(e, slot);
  }
  for (size_t local = 0; local < copies_.size(); ++local) {
    Copy& copy = copies_[local];
    copy.blocks = blocks_of(shards, replicas_[local]);
    copy.slots.clear();
    copy.of_entry.assign(entries_.size(), {});
    const int64_t elements =
        copy.blocks.empty() ? 0
                            : copy.blocks.back().slot_begin + copy.blocks.back().elements.size();
    for (int slot = 0; slot < num_slots(); ++slot) {
      const tensor::Arena& from = host_[static_cast<size_t>(slot)];
      const double initial = slot < rule_.num_slots() ? rule_.slot_initial_value(slot) : 0;
      copy.slots.push_back(at::full({elements}, initial, copy.gradients.flat().options()));
      for (const Block& block : copy.blocks) {
        for (const Piece& piece : block.pieces) {
          copy.slots.back()
              .narrow(0, piece.slot_begin, piece.of_entry.size())
              .copy_(elements_of(from.view(static_cast<int64_t>(piece.entry)), piece.of_entry));
        }
      }
      for (size_t e = 0; e < entries_.size(); ++e) {
        if (!is_whole(e)) continue;
        copy.of_entry[e].push_back(at::empty_like(parameter(e, static_cast<int>(local))));
        copy.of_entry[e].back().copy_(from.view(static_cast<int64_t>(e)));
      }
    }
  }
  shards_ = shards;
  host_.clear();
}

void ShardedUpdate::join() {
  if (!shards_) return;
  const at::NoGradGuard no_grad;
  const bool has_all = static_cast<int>(copies_.size()) == shards_->num_replicas;
  host_ = make_host_slots();
  for (size_t slot = 0; slot < host_.size(); ++slot) {
    for (size_t e = 0; e < entries_.size(); ++e) {
      at::Tensor view = host_[slot].view(static_cast<int64_t>(e));
      is_known_[slot][e] = is_whole(e) || has_all;
      if (is_whole(e)) view.copy_(copies_[0].of_entry[e][slot]);
      // `slots()` is asked for before a checkpoint is restored, so it gives what there is.
      if (!is_known_[slot][e]) view.fill_(std::numeric_limits<double>::quiet_NaN());
    }
    for (const Copy& copy : copies_) {
      for (const Block& block : copy.blocks) {
        for (const Piece& piece : block.pieces) {
          elements_of(host_[slot].view(static_cast<int64_t>(piece.entry)), piece.of_entry)
              .copy_(copy.slots[slot].narrow(0, piece.slot_begin, piece.of_entry.size()));
        }
      }
    }
  }
  for (Copy& copy : copies_) {
    copy.blocks.clear();
    copy.slots.clear();
    copy.of_entry.clear();
  }
  is_whole_.assign(entries_.size(), 1);
  shards_.reset();
}

/// After an error, too, where processes need not agree on how the state was cut.
void ShardedUpdate::reshape() {
  const at::NoGradGuard no_grad;
  join();
  if (local_replicas() == replicas_) return;
  replicas_ = local_replicas();
  set_order(std::vector<size_t>(order_));
}

/// What is cut stays as it is.
UpdatePass::GradientMemory ShardedUpdate::gradient_memory(const std::vector<size_t>& order) {
  const at::NoGradGuard no_grad;
  if (!shards_ && order != order_) set_order(order);
  return {.entries = order_, .arenas = gradient_arenas()};
}

std::vector<tensor::Arena> ShardedUpdate::gradient_arenas() const {
  std::vector<tensor::Arena> arenas;
  for (const Copy& copy : copies_) arenas.push_back(copy.gradients);
  return arenas;
}

std::vector<tensor::Arena> ShardedUpdate::parameter_arenas() const {
  std::vector<tensor::Arena> arenas;
  for (const Copy& copy : copies_) arenas.push_back(copy.parameters);
  return arenas;
}

/// Not the padding between them: it stays zero.
void ShardedUpdate::put_into_gradients(int slot) {
  const at::NoGradGuard no_grad;
  for (const Copy& copy : copies_) {
    std::vector<at::Tensor> targets;
    std::vector<at::Tensor> sources;
    for (const Block& block : copy.blocks) {
      for (const Piece& piece : block.pieces) {
        const int64_t size = piece.of_entry.size();
        targets.push_back(slice(copy.gradients, {piece.begin, piece.begin + size}));
        sources.push_back(copy.slots[static_cast<size_t>(slot)].narrow(0, piece.slot_begin, size));
      }
    }
    if (!targets.empty()) at::_foreach_copy_(targets, sources, /*non_blocking=*/true);
  }
}

void ShardedUpdate::set_slot(size_t entry, int slot, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  const auto index = static_cast<size_t>(slot);
  is_known_[index][entry] = 1;
  if (!shards_) {
    host_[index].view(static_cast<int64_t>(entry)).copy_(value);
    return;
  }
  if (is_whole(entry)) {
    for (const Copy& copy : copies_) copy.of_entry[entry][index].copy_(value);
    return;
  }
  // Laid out as the variable, on the host.
  const at::Tensor like = parameter(entry, 0);
  const at::Tensor here = at::empty_like(like, like.options().device(at::kCPU)).copy_(value);
  for (const Copy& copy : copies_) {
    for (const Block& block : copy.blocks) {
      for (const Piece& piece : block.pieces) {
        if (piece.entry != entry) continue;
        copy.slots[index]
            .narrow(0, piece.slot_begin, piece.of_entry.size())
            .copy_(elements_of(here, piece.of_entry));
      }
    }
  }
}

at::Tensor ShardedUpdate::slot(size_t entry, int slot) const { return slot_copies(entry, slot)[0]; }

std::vector<at::Tensor> ShardedUpdate::slot_copies(size_t entry, int slot) const {
  const auto index = static_cast<size_t>(slot);
  if (!shards_) return {host_[index].view(static_cast<int64_t>(entry))};
  if (!is_whole(entry)) return {copies_[0].gradients.view(place_of(entry))};
  std::vector<at::Tensor> all;
  for (const Copy& copy : copies_) all.push_back(copy.of_entry[entry][index]);
  return all;
}

at::Tensor ShardedUpdate::parameter(size_t entry, int replica) const {
  return entries_[entry].variable.on_replica(replica).detach();
}

std::vector<at::Tensor> ShardedUpdate::first_parameters() const {
  std::vector<at::Tensor> parameters;
  for (size_t e = 0; e < entries_.size(); ++e) parameters.push_back(parameter(e, 0));
  return parameters;
}

std::vector<double> ShardedUpdate::squared_norms(Step& step) {
  return squared_norms_of(step, first_parameters());
}

at::Tensor ShardedUpdate::squared_norms_on_gpu(Step& step) {
  return squared_norms_on_gpu_of(step, first_parameters());
}

ShardedUpdate::Values ShardedUpdate::values_of(const Copy& copy, const collective::Range& elements,
                                               int64_t slot_begin) const {
  Values values{.parameter = slice(copy.parameters, elements),
                .gradient = slice(copy.gradients, elements),
                .slots = {}};
  for (const at::Tensor& slot : copy.slots) {
    values.slots.push_back(slot.narrow(0, slot_begin, elements.size()));
  }
  return values;
}

std::vector<at::Tensor> ShardedUpdate::of_rule(const std::vector<at::Tensor>& slots) const {
  return {slots.begin(), slots.begin() + rule_.num_slots()};
}

tensor::UpdateModifiers ShardedUpdate::modifiers(const Step& step, size_t entry) const {
  return {.gradient_scale = step.gradients[entry].scale,
          .clip_value = step.clip_value,
          .weight_decay = entries_[entry].decays ? step.weight_decay : 0};
}

/// As DeviceUpdate decides, although a block may be alike where others are not: libtorch's kernels may
/// round what is left behind the last whole vector of a call otherwise, as those of CPUs do.
bool ShardedUpdate::treats_all_alike(const Step& step) const {
  const double scale = step.gradients[0].scale;
  for (size_t e = 0; e < entries_.size(); ++e) {
    const EntryGradient& gradient = step.gradients[e];
    if (!gradient.used || gradient.rows || gradient.scale != scale) return false;
    if (step.weight_decay > 0 && entries_[e].decays != entries_[0].decays) return false;
  }
  return true;
}

/// What no host knows, to the card's own elements.
void ShardedUpdate::apply_factors(const Step& step, Copy& copy) const {
  for (const Block& block : copy.blocks) {
    for (const Piece& piece : block.pieces) {
      const at::Tensor& factor = step.gradients[piece.entry].factor;
      if (!factor.defined()) continue;
      at::Tensor gradient =
          slice(copy.gradients, {piece.begin, piece.begin + piece.of_entry.size()});
      gradient.mul_(factor.to(gradient.device(), gradient.scalar_type()));
    }
  }
}

void ShardedUpdate::accumulate(const Step& step, int replica) {
  const at::NoGradGuard no_grad;
  Copy& copy = copy_of(replica);
  const auto add = [&](const collective::Range& elements, int64_t slot_begin, double scale) {
    Values values = values_of(copy, elements, slot_begin);
    values.slots.back().add_(values.gradient, scale);
  };
  const bool alike = treats_all_alike(step);
  for (const Block& block : copy.blocks) {
    if (alike) {
      add(block.elements, block.slot_begin, step.gradients[0].scale);
      continue;
    }
    for (const Piece& piece : block.pieces) {
      const EntryGradient& gradient = step.gradients[piece.entry];
      if (!gradient.used) continue;
      add({piece.begin, piece.begin + piece.of_entry.size()}, piece.slot_begin, gradient.scale);
    }
  }
  for (size_t e = 0; e < entries_.size(); ++e) {
    const EntryGradient& gradient = step.gradients[e];
    if (!is_whole(e) || !gradient.used) continue;
    copy.of_entry[e].back().add_(gradient_of(gradient, parameter(e, replica), replica),
                                 gradient.scale);
  }
}

void ShardedUpdate::update(const Step& step, int replica) {
  const at::NoGradGuard no_grad;
  if (!step.condition.defined()) return update_always(step, replica);
  // As DeviceUpdate: the host does not know whether, so it is done and perhaps undone.
  std::vector<at::Tensor> state = state_of(replica);
  std::vector<at::Tensor> before;
  for (const at::Tensor& each : state) before.push_back(each.clone());
  update_always(step, replica);
  const at::Tensor condition = step.condition.to(copy_of(replica).gradients.device());
  for (size_t i = 0; i < state.size(); ++i) {
    state[i].copy_(at::where(condition, state[i], before[i]));
  }
}

/// What an update writes.
std::vector<at::Tensor> ShardedUpdate::state_of(int replica) const {
  const Copy& copy = copy_of(replica);
  std::vector<at::Tensor> state = copy.slots;
  for (const Block& block : copy.blocks) state.push_back(slice(copy.parameters, block.elements));
  for (size_t e = 0; e < entries_.size(); ++e) {
    if (!is_whole(e)) continue;
    state.insert(state.end(), copy.of_entry[e].begin(), copy.of_entry[e].end());
    state.push_back(parameter(e, replica));
  }
  return state;
}

void ShardedUpdate::update_always(const Step& step, int replica) {
  Copy& copy = copy_of(replica);
  apply_factors(step, copy);
  const auto apply = [&](const collective::Range& elements, int64_t slot_begin, size_t entry) {
    Values values = values_of(copy, elements, slot_begin);
    std::vector<at::Tensor> slots = of_rule(values.slots);
    rule_.apply(values.parameter, values.gradient, slots, modifiers(step, entry), step.prepared);
  };
  const bool alike = treats_all_alike(step);
  for (const Block& block : copy.blocks) {
    if (alike) {
      apply(block.elements, block.slot_begin, 0);
      continue;
    }
    for (const Piece& piece : block.pieces) {
      if (!step.gradients[piece.entry].used) continue;
      apply({piece.begin, piece.begin + piece.of_entry.size()}, piece.slot_begin, piece.entry);
    }
  }
  for (size_t e = 0; e < entries_.size(); ++e) {
    if (!is_whole(e) || !step.gradients[e].used) continue;
    at::Tensor parameter = this->parameter(e, replica);
    std::vector<at::Tensor> slots = of_rule(copy.of_entry[e]);
    update_variable(rule_, step, e, replica, parameter, slots, modifiers(step, e));
  }
  if (!step.clear_accumulators) return;
  copy.slots.back().zero_();
  for (const std::vector<at::Tensor>& slots : copy.of_entry) {
    if (!slots.empty()) at::Tensor(slots.back()).zero_();
  }
}

void ShardedUpdate::average(const Step& step, int replica) {
  const at::NoGradGuard no_grad;
  Copy& copy = copy_of(replica);
  const auto slot = static_cast<size_t>(rule_.num_slots());
  const auto move = [&](at::Tensor mean, at::Tensor parameter) {
    mean.mul_(1 - step.average_rate).add_(parameter, step.average_rate);
    if (step.overwrite_by_average) parameter.copy_(mean);
  };
  for (const Block& block : copy.blocks) {
    Values values = values_of(copy, block.elements, block.slot_begin);
    move(values.slots[slot], values.parameter);
  }
  for (size_t e = 0; e < entries_.size(); ++e) {
    if (is_whole(e)) move(copy.of_entry[e][slot], parameter(e, replica));
  }
}

std::unique_ptr<ShardedUpdate> make_sharded_update(const tensor::UpdateRule& rule,
                                                   ReplicaGroup& group,
                                                   const std::vector<Entry>& entries,
                                                   const ExtraSlots& extras) {
  if (!group.options().reduction.shard_optimizer_state || rule.whole_variables()) return nullptr;
  if (group.num_replicas() == 1 || !group.placement().has_copy_per_replica()) return nullptr;
  for (int local = 0; local < group.num_local_replicas(); ++local) {
    if (!group.device(local).physical.is_cuda()) return nullptr;
  }
  // Where another optimizer has put them, parameters stay.
  for (const Entry& entry : entries) {
    if (entry.variable.state()->has_bound_storage()) return nullptr;
  }
  return std::make_unique<ShardedUpdate>(rule, group, entries, extras);
}

}  // namespace strata::optimizers
