#include "optim/step/remote_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StorageImpl.h>

#include <utility>

#include "optim/step/flat_storage.h"
#include "optim/step/gradient_sums.h"
#include "optim/step/update_operator.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::optimizers {
RemoteUpdate::RemoteUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                           const std::vector<Entry>& entries, const ExtraSlots& extras)
    : rule_(rule), group_(group), entries_(entries), extras_(extras) {
  move_variables();
  gradients_ = values_.make_like(buffers());
  for (size_t i = 0; i < entries_.size(); ++i) {
    gradient_views_.push_back(gradients_.view(static_cast<int64_t>(i)));
  }
  for (int i = 0; i < extras_.count(); ++i) local_.push_back(values_.make_like());
  std::vector<ParameterStore::Entry> places;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Variable& variable = entries_[i].variable;
    places.push_back({.name = variable.name(),
                      .shape = variable.sizes().vec(),
                      .begin = values_.offset(static_cast<int64_t>(i)),
                      .decays = entries_[i].decays});
  }
  table_ = group_.placement().store()->make_table(rule_.options(), places, values_.flat());
  if (table_->pulls_ahead()) arriving_ = values_.make_like(buffers());
  slots_.resize(static_cast<size_t>(rule_.num_slots()));
  show_values();
  for (const Entry& entry : entries_) entry.variable.state()->bump_version();
  note_versions();
}

bool RemoteUpdate::in_place() const { return group_.placement().may_share_storage(group_); }

/// Memory that the store can reach.
std::function<at::Tensor(int64_t)> RemoteUpdate::buffers() const {
  return [this](int64_t elements) {
    return group_.placement().store()->make_buffer(elements, entries_[0].variable.dtype());
  };
}

void RemoteUpdate::move_variables() {
  std::vector<tensor::ArenaEntry> layouts;
  for (const Entry& entry : entries_) {
    STRATA_CHECK(!entry.variable.state()->has_bound_storage(), kFailedPrecondition, "[",
                 rule_.name(), "] build: got '", entry.variable.name(),
                 "', which another optimizer trains; on parameter servers a variable has one");
    layouts.push_back(layout_of(entry.variable));
  }
  values_ = tensor::Arena(layouts, entries_[0].variable.dtype(), buffers());
  const auto keep = std::make_shared<tensor::Arena>(values_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Variable& variable = entries_[i].variable;
    if (!in_place()) {
      values_.view(static_cast<int64_t>(i)).copy_(variable.on_replica(0).detach());
      continue;
    }
    std::vector<at::Tensor> homes;
    for (int r = 0; r < group_.num_local_replicas(); ++r) {
      homes.push_back(values_.view(static_cast<int64_t>(i)));
    }
    variable.state()->bind_storage(homes, /*shared=*/true, keep);
  }
}

/// Each entry's sum over the replicas, which has been scaled or not.
void RemoteUpdate::add_gradients(const Step& step, bool scaled) {
  added_ = true;
  std::vector<at::Tensor> sums;
  std::vector<double> factors;
  UpdateLists lists;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const EntryGradient& gradient = step.gradients[i];
    at::Tensor& sum = gradient_views_[i];
    if (!gradient.used || gradient.rows) {
      sum.zero_();
      if (!gradient.rows) continue;
      if (step.touched_rows_only) say_all_rows(entries_[i]);
      sum.index_copy_(0, gradient.rows->rows, gradient.rows->values);
      if (scaled) scale_gradient(step, i);
      continue;
    }
    std::vector<at::Tensor> sources = gradient.sources;
    for (at::Tensor& source : sources) {
      if (source.defined()) source = source.cpu();
    }
    lists.add_gradients(sources);
    sums.push_back(sum);
    const std::array<double, 2> both = scaled ? factors_of(step, i) : std::array<double, 2>{1, 1};
    factors.insert(factors.end(), both.begin(), both.end());
  }
  add_scaled_gradients_(sums, lists.gradients, lists.num_gradients, factors,
                        table_->reads_on_this_core());
}

/// Servers do not know which rows of a flat table had a gradient.
void RemoteUpdate::say_all_rows(const Entry& entry) {
  if (std::exchange(said_all_rows_, true)) return;
  STRATA_LOG(kWarning)
      << "[optim] touched_rows_only: a step updates all rows of '" << entry.variable.name()
      << "', which is in a flat table of parameter servers; of a ServerEmbedding it "
         "updates those that have a gradient";
}

std::array<double, 2> RemoteUpdate::factors_of(const Step& step, size_t entry) const {
  return {step.gradients[entry].scale, table_->gradient_factor(step.weight)};
}

void RemoteUpdate::scale_gradient(const Step& step, size_t entry) {
  for (const double factor : factors_of(step, entry)) {
    if (factor != 1) gradient_views_[entry].mul_(factor);
  }
}

void RemoteUpdate::reduce_for_norms(Step& step, int replica) {
  if (replica == 0 && !added_) add_gradients(step, /*scaled=*/false);
}

std::vector<double> RemoteUpdate::squared_norms(Step& step) {
  std::vector<double> norms(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!step.gradients[i].used) continue;
    at::Tensor squares = at::zeros({num_norm_blocks(entries_[i].variable.numel())}, at::kDouble);
    add_gradients_(gradient_views_[i], squares, gradient_views_[i], 1, 0, 1);
    norms[i] = sums_of_blocks(squares, entries_[i].variable.numel()).item<double>();
  }
  return norms;
}

void RemoteUpdate::accumulate(const Step& step, int replica) {
  if (replica != 0) return;
  if (!added_) add_gradients(step, /*scaled=*/false);
  added_ = false;  // `update` gets the accumulators
  UpdateLists lists;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!step.gradients[i].used) continue;
    lists.add_variable(local_.back().view(static_cast<int64_t>(i)), 0,
                       entries_[i].variable.numel());
    lists.scales.push_back(step.gradients[i].scale);
    lists.add_gradients({gradient_views_[i]});
  }
  add_scaled_(lists);
}

void RemoteUpdate::update(const Step& step, int replica) {
  if (replica != 0) return;
  if (begun_) finish_push();
  write_what_changed(step.scalars.iteration);
  if (!added_) {
    add_gradients(step, /*scaled=*/true);
  } else {
    for (size_t i = 0; i < entries_.size(); ++i) scale_gradient(step, i);
  }
  added_ = false;
  const ParameterStore::Gradients gradients = {.values = gradients_.flat(),
                                               .learning_rate = step.scalars.learning_rate,
                                               .weight = step.weight,
                                               .weight_decay = step.weight_decay,
                                               .clip_value = step.clip_value};
  if (table_->pulls_ahead()) {
    table_->begin_step(gradients, arriving_.flat());
    begun_ = true;
  } else {
    table_->step(gradients, values_.flat());
    show_values();
  }
  if (!step.clear_accumulators) return;
  local_.back().flat().zero_();
}

/// The variables get the memory of the values that have arrived, which is the next ones' in turn:
/// all aliases of a storage see its memory change. What the program has written meanwhile is newer
/// than they.
void RemoteUpdate::finish_push() {
  begun_ = false;
  table_->finish_step();
  if (overwritten_ || variables_changed()) return;
  const at::Tensor values = values_.flat();
  const at::Tensor arriving = arriving_.flat();
  c10::StorageImpl* const other = arriving.storage().unsafeGetStorageImpl();
  c10::DataPtr taken = other->set_data_ptr(c10::DataPtr());
  other->set_data_ptr_noswap(
      values.storage().unsafeGetStorageImpl()->set_data_ptr(std::move(taken)));
  show_values();
  note_versions();
}

void RemoteUpdate::average(const Step& step, int replica) {
  if (replica != 0) return;
  UpdateLists lists;
  lists.add_variable(local_.front().flat(), 0, local_.front().numel());
  lists.scales.push_back(1);
  lists.add_gradients({values_.flat()});
  average_(lists, step.average_rate);
  if (!step.overwrite_by_average) return;
  values_.flat().copy_(local_.front().flat());
  overwritten_ = true;
  show_values();
}

/// Where the replicas' variables are not these values themselves.
void RemoteUpdate::show_values() {
  if (in_place()) return;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < entries_.size(); ++i) {
    for (int r = 0; r < group_.num_local_replicas(); ++r) {
      entries_[i].variable.on_replica(r).detach().copy_(values_.view(static_cast<int64_t>(i)));
    }
  }
}

void RemoteUpdate::note_versions() {
  versions_.clear();
  for (const Entry& entry : entries_) {
    versions_.push_back(static_cast<int64_t>(entry.variable.on_replica(0)._version()));
  }
}

bool RemoteUpdate::variables_changed() const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (static_cast<int64_t>(entries_[i].variable.on_replica(0)._version()) != versions_[i]) {
      return true;
    }
  }
  return false;
}

/// A restored checkpoint, say.
void RemoteUpdate::write_what_changed(int64_t updates) {
  bool changed = std::exchange(overwritten_, false);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const at::Tensor& tensor = entries_[i].variable.on_replica(0);
    if (static_cast<int64_t>(tensor._version()) == versions_[i]) continue;
    changed = true;
    if (!in_place()) values_.view(static_cast<int64_t>(i)).copy_(tensor.detach());
  }
  if (changed) table_->write(values_.flat(), updates);
  for (size_t s = 0; s < slots_.size(); ++s) {
    SlotCopy& copy = slots_[s];
    bool written = false;
    for (size_t i = 0; i < copy.views.size(); ++i) {
      written = written || static_cast<int64_t>(copy.views[i]._version()) != copy.versions[i];
    }
    if (written) table_->write_slot(static_cast<int>(s), copy.values.flat());
    copy = {};
  }
}

void RemoteUpdate::flush(int64_t updates) {
  if (begun_) finish_push();
  write_what_changed(updates);
  note_versions();
}

void RemoteUpdate::fetch() {
  if (begun_) return;  // whose values are the next step's
  table_->read(values_.flat());
  show_values();
  note_versions();
}

RemoteUpdate::SlotCopy& RemoteUpdate::slot_copy(int slot) const {
  SlotCopy& copy = slots_[static_cast<size_t>(slot)];
  if (!copy.views.empty()) return copy;
  copy.values = values_.make_like();
  copy.values.flat().copy_(table_->read_slot(slot));
  for (size_t i = 0; i < entries_.size(); ++i) {
    copy.views.push_back(copy.values.view(static_cast<int64_t>(i)));
    copy.versions.push_back(static_cast<int64_t>(copy.views.back()._version()));
  }
  return copy;
}

at::Tensor RemoteUpdate::slot(size_t entry, int slot) const {
  if (slot < rule_.num_slots()) return slot_copy(slot).views[entry];
  return local_[static_cast<size_t>(slot - rule_.num_slots())].view(static_cast<int64_t>(entry));
}

}  // namespace strata::optimizers
