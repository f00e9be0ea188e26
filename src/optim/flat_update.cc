#include "optim/flat_update.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstring>

#include "strata/tensor/tree_sum.h"

namespace strata::optimizers {
namespace {

/// Elements worked on at a time: a block of parameters, gradients and slots fits the first-level
/// cache.
constexpr int64_t kBlock = 1024;
/// Norms are added block by block from each entry's start, so that they do not depend on the
/// shares.
constexpr int64_t kNormBlock = 4096;

int64_t num_norm_blocks(const Entry& entry) {
  return (entry.variable.numel() + kNormBlock - 1) / kNormBlock;
}

/// Sum of squares in eight lanes, in an order that depends on the size alone.
template <typename T>
double sum_of_squares(const T* values, int64_t size) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) {
      const double value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (int64_t lane = 0; i < size; ++i, ++lane) {
    lanes[lane] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
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

tensor::ArenaEntry layout(const Variable& variable) {
  const at::Tensor& tensor = variable.on_replica(0);
  return {.sizes = tensor.sizes().vec(), .strides = tensor.strides().vec()};
}

template <typename T>
T* data_of(const tensor::Arena& arena, size_t i) {
  return arena.view(static_cast<int64_t>(i)).template mutable_data_ptr<T>();
}

}  // namespace

template <typename T>
FlatUpdate<T>::FlatUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                          const std::vector<Entry>& entries)
    : rule_(rule),
      replicas_(group.num_replicas()),
      share_storage_(group.shares_storage()),
      entries_(entries) {
  move_parameters();
  make_slots();
  for (int r = 0; r < replicas_; ++r) shares_.push_back(share(r));
}

template <typename T>
void FlatUpdate<T>::move_parameters() {
  // A variable that another optimizer has moved stays where it is. The last variable comes first:
  // backward produces its gradient first.
  std::vector<size_t> order;
  std::vector<tensor::ArenaEntry> layouts;
  for (size_t i = entries_.size(); i-- > 0;) {
    if (entries_[i].variable.state()->has_home()) continue;
    order.push_back(i);
    layouts.push_back(layout(entries_[i].variable));
  }
  const size_t copies = share_storage_ ? 1 : static_cast<size_t>(replicas_);
  auto arenas = std::make_shared<std::vector<tensor::Arena>>();
  for (size_t i = 0; i < copies; ++i) arenas->emplace_back(layouts, entries_[0].variable.dtype());
  for (size_t place = 0; place < order.size(); ++place) {
    std::vector<at::Tensor> homes;
    for (size_t r = 0; r < static_cast<size_t>(replicas_); ++r) {
      homes.push_back((*arenas)[share_storage_ ? 0 : r].view(static_cast<int64_t>(place)));
    }
    entries_[order[place]].variable.state()->move_into(homes, share_storage_, arenas);
  }
  for (const Entry& entry : entries_) {
    parameters_.emplace_back();
    for (int r = 0; r < (entry.variable.state()->shares_storage() ? 1 : replicas_); ++r) {
      parameters_.back().push_back(static_cast<T*>(entry.variable.on_replica(r).data_ptr()));
    }
  }
}

template <typename T>
void FlatUpdate<T>::make_slots() {
  std::vector<tensor::ArenaEntry> layouts;
  for (const Entry& entry : entries_) layouts.push_back(layout(entry.variable));
  for (int i = 0; i < rule_.num_slots(); ++i) {
    slots_.emplace_back(layouts, entries_[0].variable.dtype());
    slots_.back().flat().fill_(rule_.slot_initial_value(i));
    slot_data_.emplace_back();
    for (size_t e = 0; e < entries_.size(); ++e)
      slot_data_.back().push_back(data_of<T>(slots_.back(), e));
  }
}

/// The flat order is the reverse of the variables': backward produces the last one first.
template <typename T>
std::vector<typename FlatUpdate<T>::Part> FlatUpdate<T>::share(int replica) const {
  int64_t total = 0;
  for (const Entry& entry : entries_) total += entry.variable.numel();
  const collective::Range range = collective::chunk_range(total, replicas_, replica);
  std::vector<Part> parts;
  int64_t first = 0;
  for (size_t i = entries_.size(); i-- > 0;) {
    const int64_t size = entries_[i].variable.numel();
    const int64_t begin = std::max<int64_t>(range.begin - first, 0);
    const int64_t end = std::min(range.end - first, size);
    if (begin < end) parts.push_back({i, begin, end});
    first += size;
  }
  return parts;
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
    layouts.push_back(layout(entry.variable));
    partial_norms_.emplace_back(static_cast<size_t>(num_norm_blocks(entry)));
  }
  reduced_ = std::make_unique<tensor::Arena>(layouts, entries_[0].variable.dtype());
  for (size_t i = 0; i < entries_.size(); ++i) reduced_data_.push_back(data_of<T>(*reduced_, i));
}

template <typename T>
void FlatUpdate<T>::update(const Step& step, int replica) {
  // Backward's last gradient first: some of it is still in the caches.
  const std::vector<Part>& parts = shares_[static_cast<size_t>(replica)];
  for (size_t i = parts.size(); i-- > 0;) {
    const Part& part = parts[i];
    const EntryGradient& gradient = step.gradients[part.entry];
    if (!gradient.used) continue;
    if (gradient.rows) {
      update_rows(step, part);
    } else {
      update_part(step, part);
    }
  }
}

template <typename T>
void FlatUpdate<T>::update_part(const Step& step, const Part& part) const {
  alignas(64) T buffer[kBlock];
  const EntryGradient& gradient = step.gradients[part.entry];
  // Blocks are for the caches: what is neither added nor copied needs none.
  const bool whole = gradient.sources.size() == 1 && parameters_[part.entry].size() == 1;
  const int64_t block = whole ? part.end - part.begin : kBlock;
  for (int64_t begin = part.begin; begin < part.end; begin += block) {
    const int64_t size = std::min(block, part.end - begin);
    apply(step, part.entry, gather_block(gradient, begin, size, buffer), begin, size);
  }
}

template <typename T>
void FlatUpdate<T>::update_rows(const Step& step, const Part& part) const {
  const RowGradient& gradient = *step.gradients[part.entry].rows;
  const bool skip_untouched =
      rule_.zero_gradient_is_identity() && !(step.weight_decay > 0 && entries_[part.entry].decays);
  const int64_t width = gradient.row_size;
  auto next = std::lower_bound(gradient.rows.begin(), gradient.rows.end(), part.begin / width);
  for (int64_t at = part.begin; at < part.end;) {
    const int64_t row_begin = next == gradient.rows.end() ? part.end : *next * width;
    if (at < row_begin) {  // rows without a gradient
      const int64_t end = std::min(row_begin, part.end);
      if (!skip_untouched) apply(step, part.entry, nullptr, at, end - at);
      at = end;
      continue;
    }
    const int64_t end = std::min(row_begin + width, part.end);
    const T* values = gradient.values.const_data_ptr<T>() + (next - gradient.rows.begin()) * width;
    apply(step, part.entry, values + (at - row_begin), at, end - at);
    at = end;
    ++next;
  }
}

template <typename T>
void FlatUpdate<T>::apply(const Step& step, size_t entry, const T* gradient, int64_t begin,
                          int64_t size) const {
  const std::vector<T*>& parameters = parameters_[entry];
  tensor::UpdateSpan<T> span{.parameter = parameters[0] + begin,
                             .gradient = gradient,
                             .slots = {},
                             .size = size,
                             .gradient_scale = step.gradients[entry].scale,
                             .clip_value = step.clip_value,
                             .weight_decay = entries_[entry].decays ? step.weight_decay : 0};
  for (size_t i = 0; i < slot_data_.size(); ++i) span.slots[i] = slot_data_[i][entry] + begin;
  rule_.apply(span, step.prepared);
  for (size_t r = 1; r < parameters.size(); ++r) {
    std::memcpy(parameters[r] + begin, span.parameter, static_cast<size_t>(size) * sizeof(T));
  }
}

template <typename T>
at::Tensor FlatUpdate<T>::slot(size_t entry, int slot) const {
  return slots_[static_cast<size_t>(slot)].view(static_cast<int64_t>(entry));
}

template class FlatUpdate<float>;
template class FlatUpdate<double>;

}  // namespace strata::optimizers
