#include "optim/step/remote_update.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "core/nontemporal_copy.h"
#include "optim/step/flat_storage.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/core/error.h"
#include "tensor/sum_of_squares.h"
#include "tensor/tree_sum.h"

namespace strata::optimizers {
namespace {

template <typename T>
std::span<T> elements_of(const tensor::Arena& arena) {
  return {static_cast<T*>(arena.flat().mutable_data_ptr()), static_cast<size_t>(arena.numel())};
}

/// Elements that are added at a time, in the first-level cache.
constexpr int64_t kRemoteBlock = 1024;

template <typename T>
void multiply(T* values, int64_t size, const std::array<T, 2>& factors) {
  for (const T factor : factors) {
    if (factor == T(1)) continue;
    for (int64_t i = 0; i < size; ++i) values[i] *= factor;
  }
}

/// `to` = the sum of the sources, times each of the factors. Non-temporal, since a server may have
/// read what is there: an ordinary store would ask its core for each line.
template <typename T>
void scaled_sum_past_caches(std::vector<const T*> sources, const std::array<T, 2>& factors,
                            int64_t size, T* to) {
  const auto copy = [&](int64_t begin, const T* from, int64_t count) {
    strata::detail::nontemporal_copy(reinterpret_cast<std::byte*>(to + begin),
                                     reinterpret_cast<const std::byte*>(from),
                                     count * static_cast<int64_t>(sizeof(T)));
  };
  if (sources.size() == 1 && sources[0] != nullptr && factors == std::array<T, 2>{1, 1}) {
    return copy(0, sources[0], size);
  }
  alignas(64) T block[kRemoteBlock];
  for (int64_t begin = 0; begin < size; begin += kRemoteBlock) {
    const int64_t count = std::min(kRemoteBlock, size - begin);
    tensor::sum_in_tree_order(sources.data(), static_cast<int>(sources.size()), count, block);
    multiply(block, count, factors);
    copy(begin, block, count);
    for (const T*& source : sources) {
      if (source != nullptr) source += count;
    }
  }
}

}  // namespace

template <typename T>
RemoteUpdate<T>::RemoteUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                              const std::vector<Entry>& entries, const ExtraSlots& extras)
    : rule_(rule), group_(group), entries_(entries), extras_(extras) {
  move_variables();
  gradients_ = values_.make_like(buffers());
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

template <typename T>
bool RemoteUpdate<T>::in_place() const {
  return group_.placement().may_share_storage(group_);
}

/// Memory that the store can reach.
template <typename T>
std::function<at::Tensor(int64_t)> RemoteUpdate<T>::buffers() const {
  return [this](int64_t elements) {
    return group_.placement().store()->make_buffer(elements, c10::CppTypeToScalarType<T>());
  };
}

template <typename T>
void RemoteUpdate<T>::move_variables() {
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

template <typename T>
T* RemoteUpdate<T>::data(const tensor::Arena& arena, size_t entry) const {
  return elements_of<T>(arena).data() + arena.offset(static_cast<int64_t>(entry));
}

/// Each entry's sum over the replicas, which has been scaled or not.
template <typename T>
void RemoteUpdate<T>::add_gradients(const Step& step, bool scaled) {
  added_ = true;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const EntryGradient& gradient = step.gradients[i];
    const int64_t size = entries_[i].variable.numel();
    T* const sum = data(gradients_, i);
    if (!gradient.used) {
      std::fill_n(sum, size, T(0));
      continue;
    }
    if (gradient.rows) {
      std::fill_n(sum, size, T(0));
      const T* values = gradient.rows->values.template const_data_ptr<T>();
      const int64_t width = gradient.rows->row_size;
      for (const int64_t row : gradient.rows->rows) {
        std::copy_n(values, width, sum + row * width);
        values += width;
      }
      if (scaled) scale_gradient(step, i);
      continue;
    }
    std::vector<at::Tensor> kept;
    std::vector<const T*> sources;
    for (const at::Tensor& source : gradient.sources) {
      kept.push_back(source.defined() ? source.cpu() : source);
      sources.push_back(source.defined() ? kept.back().template const_data_ptr<T>() : nullptr);
    }
    scaled_sum_past_caches(std::move(sources),
                           scaled ? factors_of(step, i) : std::array<T, 2>{1, 1}, size, sum);
  }
  strata::detail::nontemporal_fence();
}

template <typename T>
std::array<T, 2> RemoteUpdate<T>::factors_of(const Step& step, size_t entry) const {
  return {static_cast<T>(step.gradients[entry].scale),
          static_cast<T>(table_->gradient_factor(step.weight))};
}

template <typename T>
void RemoteUpdate<T>::scale_gradient(const Step& step, size_t entry) {
  multiply(data(gradients_, entry), entries_[entry].variable.numel(), factors_of(step, entry));
}

template <typename T>
void RemoteUpdate<T>::reduce_for_norms(Step& step, int replica) {
  if (replica == 0 && !added_) add_gradients(step, /*scaled=*/false);
}

template <typename T>
std::vector<double> RemoteUpdate<T>::squared_norms(Step& step) {
  std::vector<double> norms;
  for (size_t i = 0; i < entries_.size(); ++i) {
    EntryGradient& gradient = step.gradients[i];
    const int64_t size = entries_[i].variable.numel();
    double sum = 0;
    for (int64_t begin = 0; gradient.used && begin < size; begin += tensor::kNormBlock) {
      sum += tensor::sum_of_squares(data(gradients_, i) + begin,
                                    std::min(tensor::kNormBlock, size - begin));
    }
    norms.push_back(sum);
  }
  return norms;
}

template <typename T>
void RemoteUpdate<T>::accumulate(const Step& step, int replica) {
  if (replica != 0) return;
  if (!added_) add_gradients(step, /*scaled=*/false);
  added_ = false;  // `update` gets the accumulators
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!step.gradients[i].used) continue;
    const T* gradient = data(gradients_, i);
    T* sum = data(local_.back(), i);
    const auto scale = static_cast<T>(step.gradients[i].scale);
    for (int64_t j = 0; j < entries_[i].variable.numel(); ++j) sum[j] += gradient[j] * scale;
  }
}

template <typename T>
void RemoteUpdate<T>::update(const Step& step, int replica) {
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
  std::ranges::fill(elements_of<T>(local_.back()), T(0));
}

/// The variables get the memory of the values that have arrived, which is the next ones' in turn:
/// all aliases of a storage see its memory change. What the program has written meanwhile is newer
/// than they.
template <typename T>
void RemoteUpdate<T>::finish_push() {
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

template <typename T>
void RemoteUpdate<T>::average(const Step& step, int replica) {
  if (replica != 0) return;
  const std::span<T> average = elements_of<T>(local_.front());
  const std::span<T> values = elements_of<T>(values_);
  const auto rate = static_cast<T>(step.average_rate);
  for (size_t i = 0; i < average.size(); ++i) {
    average[i] = average[i] * (1 - rate) + values[i] * rate;
  }
  if (!step.overwrite_by_average) return;
  std::ranges::copy(average, values.begin());
  overwritten_ = true;
  show_values();
}

/// Where the replicas' variables are not these values themselves.
template <typename T>
void RemoteUpdate<T>::show_values() {
  if (in_place()) return;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < entries_.size(); ++i) {
    for (int r = 0; r < group_.num_local_replicas(); ++r) {
      entries_[i].variable.on_replica(r).detach().copy_(values_.view(static_cast<int64_t>(i)));
    }
  }
}

template <typename T>
void RemoteUpdate<T>::note_versions() {
  versions_.clear();
  for (const Entry& entry : entries_) {
    versions_.push_back(static_cast<int64_t>(entry.variable.on_replica(0)._version()));
  }
}

template <typename T>
bool RemoteUpdate<T>::variables_changed() const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (static_cast<int64_t>(entries_[i].variable.on_replica(0)._version()) != versions_[i]) {
      return true;
    }
  }
  return false;
}

/// A restored checkpoint, say.
template <typename T>
void RemoteUpdate<T>::write_what_changed(int64_t updates) {
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

template <typename T>
typename RemoteUpdate<T>::SlotCopy& RemoteUpdate<T>::slot_copy(int slot) const {
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

template <typename T>
at::Tensor RemoteUpdate<T>::slot(size_t entry, int slot) const {
  if (slot < rule_.num_slots()) return slot_copy(slot).views[entry];
  return local_[static_cast<size_t>(slot - rule_.num_slots())].view(static_cast<int64_t>(entry));
}

template class RemoteUpdate<float>;
template class RemoteUpdate<double>;

}  // namespace strata::optimizers
