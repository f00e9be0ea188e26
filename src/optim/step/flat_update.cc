#include "optim/step/flat_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/half_copy.h"
#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "tensor/sum_of_squares.h"
#include "tensor/tree_kernels.h"
#include "tensor/tree_sum.h"

namespace strata::optimizers {
namespace {

using tensor::kNormBlock;
using tensor::sum_of_squares;

/// Elements worked on at a time: a block of parameters, gradients and slots fits the first-level
/// cache.
constexpr int64_t kBlock = 1024;
int64_t num_norm_blocks(const Entry& entry) {
  return (entry.variable.numel() + kNormBlock - 1) / kNormBlock;
}

template <typename T>
const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

/// Elements [begin, begin + size) of an entry's gradient: a source itself, or the sum in `buffer`.
template <typename T>
const T* gather_block(const EntryGradient& gradient, int64_t begin, int64_t size, T* buffer) {
  if (gradient.sources.size() == 1) return data_or_null<T>(gradient.sources[0]) + begin;
  c10::SmallVector<const T*, 16> sources;
  for (const at::Tensor& source : gradient.sources) {
    const T* data = data_or_null<T>(source);
    sources.push_back(data ? data + begin : nullptr);
  }
  tensor::sum_in_tree_order(sources.data(), static_cast<int>(sources.size()), size, buffer);
  return buffer;
}

/// Fetches what `gather_block` will read: another core has just written it.
template <typename T>
void fetch_block(const EntryGradient& gradient, int64_t begin, int64_t size) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (const at::Tensor& source : gradient.sources) {
    if (!source.defined()) continue;
    const T* const data = source.const_data_ptr<T>() + begin;
    for (int64_t i = 0; i < size; i += kLine) __builtin_prefetch(data + i, 0, 2);
  }
}

}  // namespace

template <typename T>
FlatUpdate<T>::FlatUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                          const std::vector<Entry>& entries, const ExtraSlots& extras)
    : rule_(rule),
      extras_(extras),
      group_(group),
      replicas_(group.num_local_replicas()),
      entries_(entries),
      storage_(group, entries, make_slots()),
      halves_(entries.size()) {
  if (rule_.whole_variables()) prepare_norms();
  shares_ = make_shares();
}

template <typename T>
bool FlatUpdate<T>::prepare(bool may_share) {
  const bool was_shared = storage_.shared();
  storage_.prepare(may_share);
  if (storage_.shared() && !was_shared) shares_ = make_shares();
  find_halves();
  return storage_.shared();
}

/// Where all elements of this process's variables are written by its own replicas: a copy of which
/// others write a part is rounded when it is read.
template <typename T>
void FlatUpdate<T>::find_halves() {
  halves_.assign(entries_.size(), {});
  if (!std::is_same_v<T, float> || storage_.shared() || !owned_.empty()) return;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const strata::detail::VariableState& state = *entries_[i].variable.state();
    halves_[i] = state.half_copies().to_update(state.replicas());
  }
}

template <typename T>
void FlatUpdate<T>::wrote(size_t entry) {
  if (halves_[entry].empty()) return;
  const strata::detail::VariableState& state = *entries_[entry].variable.state();
  state.half_copies().updated(state.replicas());
}

template <typename T>
void FlatUpdate<T>::spread(size_t entry, int64_t begin, int64_t size) const {
  storage_.spread(entry, begin, size);
  if constexpr (std::is_same_v<T, float>) {
    static const auto round = tensor::tree_kernels(best_cpu_isa()).bf16.narrow;
    for (const at::Tensor& half : halves_[entry]) {
      round(storage_.parameters(entry)[0] + begin, size,
            static_cast<uint16_t*>(half.mutable_data_ptr()) + begin);
    }
  }
}

template <typename T>
void FlatUpdate<T>::reshape() {
  replicas_ = group_.num_local_replicas();
  owned_.clear();
  storage_.reshape();
  shares_ = make_shares();
}

template <typename T>
void FlatUpdate<T>::own(std::vector<collective::Range> elements) {
  owned_ = std::move(elements);
  storage_.keep_slots_of(owned_);
  shares_ = make_shares();
}

template <typename T>
collective::Range FlatUpdate<T>::owned(size_t entry) const {
  if (!owned_.empty()) return owned_[entry];
  return {.begin = 0, .end = entries_[entry].variable.numel()};
}

template <typename T>
std::vector<collective::Range> FlatUpdate<T>::elements_of_process(size_t entry) const {
  std::vector<collective::Range> ranges;
  for (int local = 0; local < replicas_; ++local) {
    for (const Part& part : share_of(local)) {
      if (part.entry == entry) ranges.push_back({part.begin, part.end});
    }
  }
  return ranges;
}

template <typename T>
std::vector<tensor::Arena> FlatUpdate<T>::make_slots() const {
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
  }
  return slots;
}

/// The flat order is the reverse of the variables': backward produces the last one first. Whole
/// variables are dealt out, large ones first, each to the replica that has least.
template <typename T>
std::vector<std::vector<typename FlatUpdate<T>::Part>> FlatUpdate<T>::make_shares() const {
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

template <typename T>
void FlatUpdate<T>::reduce_for_norms(Step& step, int replica) {
  // Block b of all blocks is replica (b mod n)'s, and none is cut: sums must not depend on n.
  int64_t block = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const EntryGradient& gradient = step.gradients[i];
    const int64_t size = entries_[i].variable.numel();
    for (int64_t begin = 0; begin < size; begin += kNormBlock, ++block) {
      if (block % replicas_ != replica || !gradient.used || gradient.rows) continue;
      const int64_t count = std::min(kNormBlock, size - begin);
      T* sum = reduced_data_[i] + begin;
      const T* data = gather_block(gradient, begin, count, sum);
      if (data != sum) std::memcpy(sum, data, static_cast<size_t>(count) * sizeof(T));
      partial_norms_[i][static_cast<size_t>(begin / kNormBlock)] = sum_of_squares(sum, count);
    }
  }
}

template <typename T>
std::vector<double> FlatUpdate<T>::squared_norms(Step& step) {
  std::vector<double> norms;
  for (size_t i = 0; i < entries_.size(); ++i) {
    EntryGradient& gradient = step.gradients[i];
    double sum = 0;
    if (gradient.rows) {
      sum =
          sum_of_squares(gradient.rows->values.const_data_ptr<T>(), gradient.rows->values.numel());
    } else if (gradient.used) {
      for (const double partial : partial_norms_[i]) sum += partial;
      gradient.sources = {reduced_->view(static_cast<int64_t>(i))};
    }
    norms.push_back(sum);
  }
  return norms;
}

template <typename T>
void FlatUpdate<T>::prepare_norms() {
  if (reduced_) return;
  std::vector<tensor::ArenaEntry> layouts;
  for (const Entry& entry : entries_) {
    layouts.push_back(layout_of(entry.variable));
    partial_norms_.emplace_back(static_cast<size_t>(num_norm_blocks(entry)));
  }
  reduced_ = std::make_unique<tensor::Arena>(layouts, entries_[0].variable.dtype());
  for (size_t i = 0; i < entries_.size(); ++i) {
    reduced_data_.push_back(reduced_->view(static_cast<int64_t>(i)).template mutable_data_ptr<T>());
  }
}

template <typename T>
void FlatUpdate<T>::update(const Step& step, int replica) {
  // Backward's last gradient first: some of it is still in the caches.
  const std::vector<Part>& parts = share_of(replica);
  for (size_t i = parts.size(); i-- > 0;) {
    const Part& part = parts[i];
    const EntryGradient& gradient = step.gradients[part.entry];
    if (gradient.used && rule_.whole_variables()) {
      update_whole(step, part);
    } else if (gradient.used) {
      const bool skip_untouched = rule_.zero_gradient_is_identity() &&
                                  !(step.weight_decay > 0 && entries_[part.entry].decays);
      for_each_block(step, part, skip_untouched, [&](const T* values, int64_t at, int64_t size) {
        apply(step, part.entry, values, at, size);
      });
    }
    if (!step.clear_accumulators) continue;
    T* sum = accumulator(part.entry) + part.begin;
    std::fill(sum, sum + (part.end - part.begin), T(0));
  }
}

/// Calls `work(gradient, begin, size)` for the pieces of `part` in turn. The gradient of rows that
/// a sparse one does not touch is null, or they are left out.
template <typename T>
template <typename Work>
void FlatUpdate<T>::for_each_block(const Step& step, const Part& part, bool skip_untouched,
                                   const Work& work) const {
  if (step.gradients[part.entry].rows) {
    for_each_row(step, part, skip_untouched, work);
    return;
  }
  alignas(64) T buffer[kBlock];
  const EntryGradient& gradient = step.gradients[part.entry];
  // Blocks are for the caches: what is neither added nor copied needs none.
  const bool whole = gradient.sources.size() == 1 && storage_.parameters(part.entry).size() == 1 &&
                     halves_[part.entry].empty();
  const int64_t block = whole ? part.end - part.begin : kBlock;
  for (int64_t begin = part.begin; begin < part.end; begin += block) {
    const int64_t size = std::min(block, part.end - begin);
    if (!whole) {
      fetch_block<T>(gradient, begin + size, std::min(block, part.end - begin - size));
    }
    work(gather_block(gradient, begin, size, buffer), begin, size);
  }
}

template <typename T>
template <typename Work>
void FlatUpdate<T>::for_each_row(const Step& step, const Part& part, bool skip_untouched,
                                 const Work& work) const {
  const RowGradient& gradient = *step.gradients[part.entry].rows;
  const int64_t width = gradient.row_size;
  auto next = std::lower_bound(gradient.rows.begin(), gradient.rows.end(), part.begin / width);
  for (int64_t at = part.begin; at < part.end;) {
    const int64_t row_begin = next == gradient.rows.end() ? part.end : *next * width;
    if (at < row_begin) {  // rows without a gradient
      const int64_t end = std::min(row_begin, part.end);
      if (!skip_untouched) work(nullptr, at, end - at);
      at = end;
      continue;
    }
    const int64_t end = std::min(row_begin + width, part.end);
    const T* values = gradient.values.const_data_ptr<T>() + (next - gradient.rows.begin()) * width;
    work(values + (at - row_begin), at, end - at);
    at = end;
    ++next;
  }
}

template <typename T>
void FlatUpdate<T>::update_whole(const Step& step, const Part& part) const {
  T* sum = reduced_data_[part.entry];
  for_each_block(step, part, false, [&](const T* values, int64_t at, int64_t size) {
    if (values == nullptr) {
      std::fill(sum + at, sum + at + size, T(0));
    } else if (values != sum + at) {
      std::memcpy(sum + at, values, static_cast<size_t>(size) * sizeof(T));
    }
  });
  if (entries_[part.entry].variable.on_replica(0).is_contiguous()) {
    apply(step, part.entry, sum, 0, part.end);
  } else {
    apply_in_row_order(step, part.entry);
  }
}

/// A kernel that lies in another order than its shape's: the rule sees rows and columns, and its
/// norms add up in their order, so that a step does not depend on how a variable lies.
template <typename T>
void FlatUpdate<T>::apply_in_row_order(const Step& step, size_t entry) const {
  const at::NoGradGuard no_grad;
  const tensor::ArenaEntry layout = layout_of(entries_[entry].variable);
  const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value);
  const auto as_it_lies = [&](T* data) {
    return at::from_blob(data, layout.sizes, layout.strides, options);
  };
  const auto in_rows = [&](T* data) { return as_it_lies(data).contiguous(); };
  T* const home = storage_.parameters(entry)[0];
  const at::Tensor parameter = in_rows(home);
  const at::Tensor gradient = in_rows(reduced_data_[entry]);
  tensor::UpdateSpan<T> span =
      span_of(step, entry, gradient.const_data_ptr<T>(), 0, entries_[entry].variable.numel());
  span.parameter = parameter.mutable_data_ptr<T>();
  std::vector<std::pair<T*, at::Tensor>> slots;
  for (int i = 0; i < rule_.num_slots(); ++i) {
    if (rule_.slot_shape(i, layout.sizes) != layout.sizes) continue;  // lies in rows already
    T*& data = span.slots[static_cast<size_t>(i)];
    slots.emplace_back(data, in_rows(data));
    data = slots.back().second.template mutable_data_ptr<T>();
  }
  rule_.apply(span, step.prepared);
  as_it_lies(home).copy_(parameter);
  for (const auto& [data, slot] : slots) as_it_lies(data).copy_(slot);
  spread(entry, 0, span.size);
}

template <typename T>
void FlatUpdate<T>::accumulate(const Step& step, int replica) {
  static const std::unique_ptr<tensor::UpdateRule> adder = tensor::SGDRule{}.make();
  for (const Part& part : share_of(replica)) {
    const EntryGradient& gradient = step.gradients[part.entry];
    if (!gradient.used) continue;
    T* sum = accumulator(part.entry);
    for_each_block(step, part, true, [&](const T* values, int64_t at, int64_t size) {
      adder->apply(tensor::UpdateSpan<T>{.parameter = sum + at,
                                         .gradient = values,
                                         .size = size,
                                         .gradient_scale = gradient.scale},
                   tensor::PreparedStep(-1, {}));
    });
  }
}

template <typename T>
void FlatUpdate<T>::average(const Step& step, int replica) {
  static const std::unique_ptr<tensor::UpdateRule> rule = tensor::MovingAverageRule{}.make();
  const tensor::PreparedStep rate = rule->prepare({.learning_rate = step.average_rate});
  const size_t slot = static_cast<size_t>(rule_.num_slots());
  for (const Part& part : share_of(replica)) {
    T* mean = storage_.slot(slot, part.entry) + part.begin;
    const int64_t size = part.end - part.begin;
    rule->apply(tensor::UpdateSpan<T>{.parameter = mean,
                                      .gradient = storage_.parameters(part.entry)[0] + part.begin,
                                      .size = size},
                rate);
    if (!step.overwrite_by_average) continue;
    std::copy_n(mean, size, storage_.parameters(part.entry)[0] + part.begin);
    spread(part.entry, part.begin, size);
  }
}

template <typename T>
tensor::UpdateSpan<T> FlatUpdate<T>::span_of(const Step& step, size_t entry, const T* gradient,
                                             int64_t begin, int64_t size) const {
  tensor::UpdateSpan<T> span{.parameter = storage_.parameters(entry)[0] + begin,
                             .gradient = gradient,
                             .slots = {},
                             .size = size,
                             .gradient_scale = step.gradients[entry].scale,
                             .clip_value = step.clip_value,
                             .weight_decay = entries_[entry].decays ? step.weight_decay : 0};
  for (size_t i = 0; i < static_cast<size_t>(rule_.num_slots()); ++i)
    span.slots[i] = storage_.slot(i, entry) + begin;
  if (rule_.whole_variables()) span.sizes = entries_[entry].variable.on_replica(0).sizes();
  return span;
}

template <typename T>
void FlatUpdate<T>::apply(const Step& step, size_t entry, const T* gradient, int64_t begin,
                          int64_t size) const {
  rule_.apply(span_of(step, entry, gradient, begin, size), step.prepared);
  spread(entry, begin, size);
}

template <typename T>
at::Tensor FlatUpdate<T>::slot(size_t entry, int slot) const {
  return storage_.slot_view(static_cast<size_t>(slot), entry);
}

template class FlatUpdate<float>;
template class FlatUpdate<double>;

}  // namespace strata::optimizers
