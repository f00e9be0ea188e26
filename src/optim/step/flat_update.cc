#include "optim/step/flat_update.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "optim/step/gradient_sums.h"
#include "runtime/half_copy.h"
#include "runtime/replica_group.h"

namespace strata::optimizers {
FlatUpdate::FlatUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                       const std::vector<Entry>& entries, const ExtraSlots& extras)
    : rule_(rule),
      rule_text_(text_of(rule)),
      extras_(extras),
      group_(group),
      replicas_(group.num_local_replicas()),
      entries_(entries),
      storage_(group, entries, make_slots()),
      halves_(entries.size()),
      lists_(static_cast<size_t>(replicas_)) {
  shares_ = make_shares();
}

bool FlatUpdate::prepare(bool may_share) {
  const bool was_shared = storage_.shared();
  storage_.prepare(may_share);
  if (storage_.shared() && !was_shared) shares_ = make_shares();
  find_halves();
  return storage_.shared();
}

/// Where all elements of this process's variables are written by its own replicas: a copy of which
/// others write a part is rounded when it is read.
void FlatUpdate::find_halves() {
  halves_.assign(entries_.size(), {});
  if (entries_[0].variable.dtype() != at::kFloat || storage_.shared() || !owned_.empty()) return;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const strata::detail::VariableState& state = *entries_[i].variable.state();
    halves_[i] = state.half_copies().to_update(state.replicas());
  }
}

void FlatUpdate::wrote(size_t entry) {
  if (halves_[entry].empty()) return;
  const strata::detail::VariableState& state = *entries_[entry].variable.state();
  state.half_copies().updated(state.replicas());
}

void FlatUpdate::reshape() {
  replicas_ = group_.num_local_replicas();
  lists_.resize(static_cast<size_t>(replicas_));
  owned_.clear();
  storage_.reshape();
  shares_ = make_shares();
}

void FlatUpdate::own(std::vector<collective::Range> elements) {
  owned_ = std::move(elements);
  storage_.keep_slots_of(owned_);
  shares_ = make_shares();
}

collective::Range FlatUpdate::owned(size_t entry) const {
  if (!owned_.empty()) return owned_[entry];
  return {.begin = 0, .end = entries_[entry].variable.numel()};
}

std::vector<collective::Range> FlatUpdate::elements_of_process(size_t entry) const {
  std::vector<collective::Range> ranges;
  for (int local = 0; local < replicas_; ++local) {
    for (const Part& part : share_of(local)) {
      if (part.entry == entry) ranges.push_back({part.begin, part.end});
    }
  }
  return ranges;
}

std::vector<tensor::Arena> FlatUpdate::make_slots() const {
  const int of_rule = rule_.num_slots();
  std::vector<tensor::Arena> slots;
  for (int i = 0; i < of_rule + extras_.count(); ++i) {
    std::vector<tensor::ArenaEntry> layouts;
    for (const Entry& entry : entries_) {
      layouts.push_back(layout_of(entry.variable));
      if (i >= of_rule) continue;
      std::vector<int64_t> shape = rule_.slot_shape(i, layouts.back().sizes);
      if (shape != layouts.back().sizes) layouts.back() = {.sizes = std::move(shape)};
    }
    slots.emplace_back(layouts, entries_[0].variable.dtype());
    // Memory is zero, and costs nothing before it is touched.
    const double initial = i < of_rule ? rule_.slot_initial_value(i) : 0;
    if (initial != 0) slots.back().flat().fill_(initial);
    if (i < of_rule && rule_.slot_starts_as_variable(i)) {
      copy_variables(entries_, slots.back());
    }
  }
  return slots;
}

/// The flat order is the reverse of the variables': backward produces the last one first. Whole
/// variables are dealt out, large ones first, each to the replica that has least.
std::vector<std::vector<FlatUpdate::Part>> FlatUpdate::make_shares() const {
  const int count = storage_.shared() ? group_.num_replicas() : replicas_;
  std::vector<std::vector<Part>> shares(static_cast<size_t>(count));
  if (rule_.whole_variables()) {
    std::vector<size_t> order(entries_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return entries_[a].variable.numel() > entries_[b].variable.numel();
    });
    std::vector<int64_t> sizes(shares.size());
    for (const size_t i : order) {
      const auto least =
          static_cast<size_t>(std::min_element(sizes.begin(), sizes.end()) - sizes.begin());
      shares[least].push_back({i, 0, entries_[i].variable.numel()});
      sizes[least] += entries_[i].variable.numel();
    }
    return shares;
  }
  int64_t total = 0;
  for (size_t i = 0; i < entries_.size(); ++i) total += owned(i).size();
  for (int replica = 0; replica < count; ++replica) {
    const collective::Range range = collective::chunk_range(total, count, replica);
    int64_t first = 0;
    for (size_t i = entries_.size(); i-- > 0;) {
      const collective::Range elements = owned(i);
      const int64_t begin = elements.begin + std::max<int64_t>(range.begin - first, 0);
      const int64_t end = std::min(elements.begin + range.end - first, elements.end);
      if (begin < end) shares[static_cast<size_t>(replica)].push_back({i, begin, end});
      first += elements.size();
    }
  }
  return shares;
}

std::vector<size_t> FlatUpdate::added_entries(const Step& step) const {
  std::vector<size_t> entries;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (step.gradients[i].used && !step.gradients[i].rows) entries.push_back(i);
  }
  return entries;
}

void FlatUpdate::reduce_for_norms(Step& step, int replica) {
  std::vector<at::Tensor> sums;
  UpdateLists lists;
  for (const size_t i : added_entries(step)) {
    sums.push_back(reduced_views_[i]);
    lists.add_gradients(step.gradients[i].sources);
  }
  // Block b of all blocks is replica (b mod n)'s, and none is cut: sums must not depend on n.
  add_gradients_(sums, squares_, lists.gradients, lists.num_gradients, replica, replicas_);
}

std::vector<double> FlatUpdate::squared_norms(Step& step) {
  std::vector<double> norms(entries_.size());
  const std::vector<size_t> added = added_entries(step);
  std::vector<int64_t> sizes;
  for (const size_t i : added) {
    sizes.push_back(entries_[i].variable.numel());
    step.gradients[i].sources = {reduced_views_[i]};
  }
  const at::Tensor sums = sums_of_blocks(squares_, sizes);
  for (size_t i = 0; i < added.size(); ++i) {
    norms[added[i]] = sums[static_cast<int64_t>(i)].item<double>();
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto& rows = step.gradients[i].rows;
    if (rows) norms[i] = sum_of_squares(rows->values).item<double>();
  }
  return norms;
}

void FlatUpdate::prepare_norms() {
  if (reduced_) return;
  std::vector<tensor::ArenaEntry> layouts;
  int64_t blocks = 0;
  for (const Entry& entry : entries_) {
    layouts.push_back(layout_of(entry.variable));
    blocks += num_norm_blocks(entry.variable.numel());
  }
  reduced_ = std::make_unique<tensor::Arena>(layouts, entries_[0].variable.dtype());
  for (size_t i = 0; i < entries_.size(); ++i) {
    reduced_views_.push_back(reduced_->view(static_cast<int64_t>(i)));
  }
  squares_ = at::zeros({blocks}, at::kDouble);
}

UpdateSettings FlatUpdate::settings_of(const Step& step) const {
  return {.rule = rule_text_,
          .step = step.prepared,
          .clip_value = step.clip_value,
          .past_caches = storage_.past_caches(),
          .touched_rows_only = step.touched_rows_only};
}

void FlatUpdate::add_part(UpdateLists& lists, const Part& part, double weight_decay) const {
  const std::vector<at::Tensor>& homes = storage_.parameters(part.entry);
  const std::vector<at::Tensor>& halves = halves_[part.entry];
  lists.parameters.push_back(homes[0]);
  lists.ranges.push_back(part.begin);
  lists.ranges.push_back(part.end);
  lists.weight_decays.push_back(weight_decay);
  for (size_t slot = 0; slot < static_cast<size_t>(rule_.num_slots()); ++slot) {
    lists.slots.push_back(storage_.slot(slot, part.entry));
  }
  lists.copies.insert(lists.copies.end(), homes.begin() + 1, homes.end());
  lists.copies.insert(lists.copies.end(), halves.begin(), halves.end());
  lists.num_copies.push_back(static_cast<int64_t>(homes.size() - 1 + halves.size()));
}

void FlatUpdate::update(const Step& step, int replica) {
  const UpdateSettings settings = settings_of(step);
  UpdateLists& dense = lists_[static_cast<size_t>(replica)];
  dense.clear();  // a step that failed has left some
  const std::vector<Part>& parts = share_of(replica);
  const auto add = [&](UpdateLists& lists, const Part& part) {
    add_part(lists, part, entries_[part.entry].decays ? step.weight_decay : 0);
    lists.scales.push_back(step.gradients[part.entry].scale);
  };
  // Backward's last gradient first: some of it is still in the caches.
  for (size_t i = parts.size(); i-- > 0;) {
    const EntryGradient& gradient = step.gradients[parts[i].entry];
    if (!gradient.used) continue;
    if (gradient.rows) {
      UpdateLists rows;
      add(rows, parts[i]);
      update_rows_(settings, rows, *gradient.rows);
    } else {
      add(dense, parts[i]);
      dense.add_gradients(gradient.sources);
    }
  }
  update_(settings, dense);
  dense.clear();
  if (!step.clear_accumulators) return;
  for (const Part& part : parts) elements_of(accumulator(part.entry), part).zero_();
}

at::Tensor FlatUpdate::elements_of(const at::Tensor& tensor, const Part& part) {
  return in_memory_order(tensor.detach()).slice(0, part.begin, part.end);
}

void FlatUpdate::accumulate(const Step& step, int replica) {
  UpdateLists dense;
  for (const Part& part : share_of(replica)) {
    const EntryGradient& gradient = step.gradients[part.entry];
    if (!gradient.used) continue;
    UpdateLists rows;
    UpdateLists& lists = gradient.rows ? rows : dense;
    lists.add_variable(accumulator(part.entry), part.begin, part.end);
    lists.scales.push_back(gradient.scale);
    if (gradient.rows) {
      add_scaled_rows_(rows, *gradient.rows);
    } else {
      dense.add_gradients(gradient.sources);
    }
  }
  add_scaled_(dense);
}

void FlatUpdate::average(const Step& step, int replica) {
  const size_t slot = static_cast<size_t>(rule_.num_slots());
  UpdateLists lists;
  for (const Part& part : share_of(replica)) {
    lists.add_variable(storage_.slot(slot, part.entry), part.begin, part.end);
    lists.add_gradients({storage_.parameters(part.entry)[0]});
    lists.scales.push_back(1);
  }
  average_(lists, step.average_rate);
  if (!step.overwrite_by_average) return;
  for (const Part& part : share_of(replica)) {
    const at::Tensor mean = elements_of(storage_.slot(slot, part.entry), part);
    for (const at::Tensor& copy : storage_.parameters(part.entry)) {
      elements_of(copy, part).copy_(mean);
    }
    for (const at::Tensor& half : halves_[part.entry]) elements_of(half, part).copy_(mean);
  }
}

at::Tensor FlatUpdate::slot(size_t entry, int slot) const {
  return storage_.slot_view(static_cast<size_t>(slot), entry);
}

}  // namespace strata::optimizers
