#include "ps/tables/flat_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ps/tables/gradient_values.h"
#include "ps/tables/message_blocks.h"
#include "strata/core/error.h"
#include "strata/tensor/tree_sum.h"

namespace strata::ps {
namespace {

/// Elements that are added at a time, in the first-level cache.
constexpr int64_t kBlock = 1024;

}  // namespace

/// The sum of several pushes' gradients, or the gradient of one, where it is.
template <typename T>
class FlatShard<T>::Gradients {
 public:
  explicit Gradients(const std::vector<const TableCall*>& pushes)
      : pushes_(pushes),
        as_it_is_(pushes.size() == 1 && pushes[0]->request().encoding == PushEncoding::kWhole),
        decoded_(as_it_is_ ? 0 : pushes.size() * kBlock),
        sources_(pushes.size()) {}

  /// Calls `work(gradient, first, size)` for elements [begin, end), piece by piece.
  template <typename Work>
  void for_each_block(int64_t begin, int64_t end, Work work) const {
    if (as_it_is_) {
      work(reinterpret_cast<const T*>(pushes_[0]->data()) + begin, begin, end - begin);
      return;
    }
    alignas(64) T sum[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t size = std::min(kBlock, end - at);
      for (size_t i = 0; i < pushes_.size(); ++i) {
        sources_[i] = gradient_values(pushes_[i]->data(), pushes_[i]->request().encoding, at, size,
                                      decoded_.data() + i * kBlock);
      }
      const T* gradient = sources_[0];
      if (sources_.size() > 1) {
        tensor::sum_in_tree_order(sources_.data(), static_cast<int>(sources_.size()), size, sum);
        gradient = sum;
      }
      work(gradient, at, size);
    }
  }

 private:
  const std::vector<const TableCall*>& pushes_;
  const bool as_it_is_;
  mutable std::vector<T> decoded_;
  mutable std::vector<const T*> sources_;
};

template <typename T>
FlatShard<T>::FlatShard(const TableSpec& spec, int server, BufferPool& pool, Done done)
    : Shard(spec, pool, std::move(done)) {
  for (const TablePart& part : spec_.parts) {
    if (part.server != server) continue;
    runs_.push_back({part.begin, elements_, part.end - part.begin});
    elements_ += part.end - part.begin;
  }
  make_segments();
  parameters_ = tensor::Arena({{.sizes = {elements_}}}, spec_.dtype);
  for (int slot = 0; slot < rule_->num_slots(); ++slot) {
    slots_.push_back(parameters_.make_like());
    const double initial = rule_->slot_initial_value(slot);
    if (initial != 0) std::fill_n(values(slot + 1), elements_, static_cast<T>(initial));
  }
}

template <typename T>
void FlatShard<T>::make_segments() {
  for (const Run& run : runs_) {
    int64_t at = 0;  // in the run
    const auto add = [&](int64_t end, bool decays) {
      if (at < end) segments_.push_back({run.begin + at, run.begin + end, decays});
      at = std::max(at, end);
    };
    for (const TablePart& part : spec_.undecayed) {
      add(std::clamp<int64_t>(part.begin - run.table_begin, 0, run.size), true);
      add(std::clamp<int64_t>(part.end - run.table_begin, 0, run.size), false);
    }
    add(run.size, true);
  }
}

template <typename T>
T* FlatShard<T>::values(int64_t slot) const {
  const tensor::Arena& arena = slot == 0 ? parameters_ : slots_[static_cast<size_t>(slot - 1)];
  return static_cast<T*>(arena.flat().mutable_data_ptr());
}

template <typename T>
std::vector<size_t> FlatShard<T>::layout_of(const Request& request) const {
  const bool brings = request.kind == RequestKind::kPush || request.kind == RequestKind::kFill;
  const size_t element =
      request.kind == RequestKind::kPush ? bytes_of_element<T>(request.encoding) : sizeof(T);
  const size_t wanted = brings ? static_cast<size_t>(elements_) * element : 0;
  STRATA_CHECK(request.data_bytes == wanted && request.rows == 0, kInvalidArgument, "[ps] table '",
               spec_.name, "': got ", request.data_bytes, " bytes and ", request.rows,
               " rows; this server has ", elements_, " elements, for which it takes ", wanted,
               " bytes");
  STRATA_CHECK(request.slot >= 0 && request.slot <= rule_->num_slots(), kInvalidArgument,
               "[ps] table '", spec_.name, "': got slot ", request.slot - 1, " of ", rule_->name(),
               ", which has ", rule_->num_slots());
  std::vector<size_t> layout;
  if (brings) {
    for (const Run& run : runs_) layout.push_back(static_cast<size_t>(run.size) * element);
  }
  return layout;
}

template <typename T>
void FlatShard<T>::check(const TableCall& push) const {
  if (push.request().kind != RequestKind::kPush) return;
  if (!push.not_finite) return;
  const int64_t bad = *push.not_finite;
  const auto run = std::prev(std::ranges::upper_bound(runs_, bad, {}, &Run::begin));
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[ps] table '", spec_.name, "': got a gradient that is not finite from ",
                      push.worker(), ", element ", run->table_begin + bad - run->begin,
                      "; nothing of this push was applied"));
}

/// Message by message, so that what is updated is sent while the rest is still being updated.
template <typename T>
void FlatShard<T>::apply(const std::vector<const TableCall*>& pushes, const Update& update,
                         const std::vector<TableCall*>& answered) {
  const Gradients gradients(pushes);
  std::vector<std::byte*> rooms;
  rooms.reserve(answered.size());
  for (TableCall* call : answered) {
    rooms.push_back(call->make_room(pool_, static_cast<size_t>(elements_) * sizeof(T)));
  }
  auto segment = segments_.begin();
  for_each_part([&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const int64_t until = std::min(end, segment->end);
      gradients.for_each_block(at, until, [&](const T* gradient, int64_t first, int64_t size) {
        apply_block(gradient, first, size, update, segment->decays);
      });
      at = until;
      if (at == segment->end) ++segment;
    }
    for (size_t i = 0; i < answered.size(); ++i) send_part(*answered[i], rooms[i], 0, begin, end);
  });
}

template <typename T>
void FlatShard<T>::apply_block(const T* gradient, int64_t begin, int64_t size, const Update& update,
                               bool decays) {
  tensor::UpdateSpan<T> span{.parameter = values(0) + begin,
                             .gradient = gradient,
                             .size = size,
                             .gradient_scale = update.scale,
                             .clip_value = update.clip_value,
                             .weight_decay = decays ? update.weight_decay : 0};
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    span.slots[slot] = values(static_cast<int64_t>(slot) + 1) + begin;
  }
  rule_->apply(span, update.step);
}

template <typename T>
void FlatShard<T>::send_values(TableCall& call) {
  std::byte* room = call.make_room(pool_, static_cast<size_t>(elements_) * sizeof(T));
  for_each_part(
      [&](int64_t begin, int64_t end) { send_part(call, room, call.request().slot, begin, end); });
}

template <typename T>
void FlatShard<T>::send_part(TableCall& call, std::byte* room, int64_t slot, int64_t begin,
                             int64_t end) {
  const auto bytes = static_cast<size_t>(end - begin) * sizeof(T);
  std::memcpy(room + static_cast<size_t>(begin) * sizeof(T), values(slot) + begin, bytes);
  call.send(bytes);
}

/// Calls `work(begin, end)` for the elements of each message.
template <typename T>
template <typename Work>
void FlatShard<T>::for_each_part(Work work) const {
  for (const Run& run : runs_) {
    for_each_message(static_cast<size_t>(run.size) * sizeof(T), [&](size_t offset, size_t bytes) {
      const int64_t begin = run.begin + static_cast<int64_t>(offset / sizeof(T));
      work(begin, begin + static_cast<int64_t>(bytes / sizeof(T)));
    });
  }
}

template <typename T>
void FlatShard<T>::fill(const TableCall& call) {
  if (elements_ == 0) return;
  std::memcpy(values(call.request().slot), call.data(), static_cast<size_t>(elements_) * sizeof(T));
}

template class FlatShard<float>;
template class FlatShard<double>;

}  // namespace strata::ps
