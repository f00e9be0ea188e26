#include "ps/tables/flat_shard.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <latch>
#include <utility>

#include "core/nontemporal_copy.h"
#include "ps/tables/gradient_values.h"
#include "ps/tables/message_blocks.h"
#include "strata/core/error.h"
#include "tensor/thread_setup.h"
#include "tensor/tree_sum.h"

namespace strata::ps {
namespace {

/// Elements that are added at a time, in the first-level cache.
constexpr int64_t kBlock = 1024;
/// And updated, in the second-level cache.
constexpr int64_t kStrip = 16 << 10;

}  // namespace

/// The sum of several pushes' gradients, or the gradient of one, where it is.
template <typename T>
class FlatShard<T>::Gradients {
 public:
  explicit Gradients(const std::vector<const TableCall*>& pushes)
      : pushes_(pushes),
        as_it_is_(pushes.size() == 1 && pushes[0]->request().encoding == PushEncoding::kFull),
        decoded_(as_it_is_ ? 0 : pushes.size() * kBlock),
        sources_(pushes.size()) {}

  /// From now on `for_each_block` is about a run, which begins at this element.
  void set_run(size_t run, int64_t begin) {
    run_ = run;
    run_begin_ = begin;
  }

  /// Calls `work(gradient, first, size)` for elements [begin, end), piece by piece.
  template <typename Work>
  void for_each_block(int64_t begin, int64_t end, Work work) const {
    if (as_it_is_) {
      const auto* gradient = reinterpret_cast<const T*>(pushes_[0]->data(run_));
      work(gradient + (begin - run_begin_), begin, end - begin);
      return;
    }
    alignas(64) T sum[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t size = std::min(kBlock, end - at);
      for (size_t i = 0; i < pushes_.size(); ++i) {
        sources_[i] = gradient_values(pushes_[i]->data(run_), pushes_[i]->request().encoding,
                                      at - run_begin_, size, decoded_.data() + i * kBlock);
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
  size_t run_ = 0;
  int64_t run_begin_ = 0;
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
  const auto keep = [this](tensor::Arena arena) {
    data_.push_back(static_cast<T*>(arena.flat().mutable_data_ptr()));
    arenas_.push_back(std::move(arena));
  };
  keep(tensor::Arena({{.sizes = {elements_}}}, spec_.dtype));
  for (int slot = 0; slot < rule_->num_slots(); ++slot) {
    keep(arenas_[0].make_like());
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
    for (const TablePart& part : spec_.no_weight_decay) {
      add(std::clamp<int64_t>(part.begin - run.table_begin, 0, run.size), true);
      add(std::clamp<int64_t>(part.end - run.table_begin, 0, run.size), false);
    }
    add(run.size, true);
  }
}

template <typename T>
PartSizes FlatShard<T>::sizes_of_runs(size_t element) const {
  PartSizes sizes;
  for (const Run& run : runs_) sizes.push_back(static_cast<size_t>(run.size) * element);
  return sizes;
}

template <typename T>
PartSizes FlatShard<T>::do_data_sizes_of(const Request& request) const {
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
  return brings ? sizes_of_runs(element) : PartSizes();
}

template <typename T>
PartSizes FlatShard<T>::answer_sizes_of(const Request& request) const {
  const bool brings = request.kind == RequestKind::kPull || request.kind == RequestKind::kRead ||
                      (request.kind == RequestKind::kPush && request.flag);
  return brings ? sizes_of_runs(sizeof(T)) : PartSizes();
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

/// Message by message, so that what is updated is sent while the rest is still being updated; and
/// strip by strip, so that it is copied while it is in the caches. One worker's answer in its memory
/// is written by the update itself.
template <typename T>
void FlatShard<T>::apply(const std::vector<const TableCall*>& pushes, const Update& update,
                         const std::vector<TableCall*>& answered) {
  Gradients gradients(pushes);
  for (TableCall* call : answered) call->make_room(pool_, sizes_of_runs(sizeof(T)));
  const auto in_place = [](const TableCall* call) { return call->in_place(); };
  if (answered.size() > 1 && elements_ > kStrip && std::ranges::all_of(answered, in_place)) {
    Gradients also(pushes);
    return apply_by_two(gradients, also, update, answered);
  }
  TableCall* const streamed =
      answered.size() == 1 && streams_to(*answered[0]) ? answered[0] : nullptr;
  auto segment = segments_.cbegin();
  for_each_message_of([&](size_t run, int64_t begin, int64_t end) {
    gradients.set_run(run, runs_[run].begin);
    for (int64_t at = begin; at < end; at += kStrip) {
      const int64_t until = std::min(end, at + kStrip);
      T* const copy = streamed == nullptr ? nullptr : room_of(*streamed, run, at);
      apply_strip(gradients, update, segment, at, until, copy);
      if (streamed != nullptr) continue;
      for (TableCall* call : answered) put_values(*call, run, 0, at, until);
    }
    for (TableCall* call : answered) send_values_of(*call, run, begin, end);
  });
  strata::detail::nontemporal_fence();
}

/// Several workers of this host wait for the step, so that at least one core besides this one has
/// nothing to do. Two threads take strips in turn; no element depends on another. The helper is
/// waited for only if it has begun: where other programs keep the cores busy this thread may have
/// done all strips before the helper gets one.
template <typename T>
void FlatShard<T>::apply_by_two(Gradients& gradients, Gradients& also, const Update& update,
                                const std::vector<TableCall*>& answered) {
  struct Strip {
    size_t run;
    int64_t begin;
    int64_t end;
  };
  std::vector<Strip> strips;
  for (size_t run = 0; run < runs_.size(); ++run) {
    const int64_t end = runs_[run].begin + runs_[run].size;
    for (int64_t at = runs_[run].begin; at < end; at += kStrip) {
      strips.push_back({run, at, std::min(end, at + kStrip)});
    }
  }
  std::atomic<size_t> next{0};
  const auto work = [&](Gradients& mine) {
    const tensor::FlushDenormals flush;  // of the helper's thread, too
    for (size_t i = next++; i < strips.size(); i = next++) {
      const auto& [run, begin, end] = strips[i];
      mine.set_run(run, runs_[run].begin);
      auto segment = std::ranges::upper_bound(std::as_const(segments_), begin, {}, &Segment::end);
      apply_strip(mine, update, segment, begin, end, nullptr);
      for (TableCall* call : answered) put_values(*call, run, 0, begin, end);
    }
    strata::detail::nontemporal_fence();
  };
  if (!helper_) helper_ = std::make_unique<SerialExecutor>("ps-helper");
  /// Outlives this call in a helper that comes too late.
  struct Helper {
    std::atomic<bool> decided{false};  // whether it takes part: by the first of both that asks
    std::latch done{1};
    std::exception_ptr error;
  };
  const auto helper = std::make_shared<Helper>();
  helper_->run(
      [helper, &work, &also] {
        if (helper->decided.exchange(true)) return;  // `work` and `also` may be gone
        try {
          work(also);
        } catch (...) {
          helper->error = std::current_exception();
        }
        helper->done.count_down();
      },
      /*is_short=*/false);
  const auto end = [&] {
    if (helper->decided.exchange(true)) helper->done.wait();
  };
  try {
    work(gradients);
  } catch (...) {
    end();
    throw;
  }
  end();
  if (helper->error) std::rethrow_exception(helper->error);
}

template <typename T>
void FlatShard<T>::apply_strip(const Gradients& gradients, const Update& update,
                               typename std::vector<Segment>::const_iterator& segment,
                               int64_t begin, int64_t end, T* copy) {
  for (int64_t at = begin; at < end;) {
    const int64_t until = std::min(end, segment->end);
    gradients.for_each_block(at, until, [&](const T* gradient, int64_t first, int64_t size) {
      tensor::UpdateSpan<T> span{.parameter = values(0) + first,
                                 .gradient = gradient,
                                 .size = size,
                                 .gradient_scale = update.scale,
                                 .clip_value = update.clip_value,
                                 .weight_decay = segment->decays ? update.weight_decay : 0,
                                 .copy = copy == nullptr ? nullptr : copy + (first - begin)};
      for (size_t slot = 0; slot + 1 < data_.size(); ++slot) {
        span.slots[slot] = values(static_cast<int64_t>(slot) + 1) + first;
      }
      rule_->apply(span, update.step);
    });
    at = until;
    if (at == segment->end) ++segment;
  }
}

template <typename T>
void FlatShard<T>::send_values(TableCall& call) {
  call.make_room(pool_, sizes_of_runs(sizeof(T)));
  for_each_message_of([&](size_t run, int64_t begin, int64_t end) {
    put_values(call, run, call.request().slot, begin, end);
    send_values_of(call, run, begin, end);
  });
  strata::detail::nontemporal_fence();
}

/// What travels is read at once. A worker's memory has been read by its core: if that is another
/// one, an ordinary store would ask it for each line, one after the other, which takes ten times as
/// long as the copy. On the worker's own core the values stay in the caches in which it reads them.
template <typename T>
bool FlatShard<T>::streams_to(const TableCall& call) const {
  return call.in_place() && !call.is_on_this_core();
}

/// Where the answer has an element of a run.
template <typename T>
T* FlatShard<T>::room_of(const TableCall& call, size_t run, int64_t element) const {
  return reinterpret_cast<T*>(call.room(run)) + (element - runs_[run].begin);
}

template <typename T>
void FlatShard<T>::put_values(TableCall& call, size_t run, int64_t slot, int64_t begin,
                              int64_t end) const {
  T* const to = room_of(call, run, begin);
  const T* const from = values(slot) + begin;
  const auto bytes = static_cast<size_t>(end - begin) * sizeof(T);
  if (streams_to(call)) {
    strata::detail::nontemporal_copy(reinterpret_cast<std::byte*>(to),
                                     reinterpret_cast<const std::byte*>(from),
                                     static_cast<int64_t>(bytes));
  } else {
    std::memcpy(to, from, bytes);
  }
}

template <typename T>
void FlatShard<T>::send_values_of(TableCall& call, size_t run, int64_t begin, int64_t end) const {
  call.send(run, static_cast<size_t>(begin - runs_[run].begin) * sizeof(T),
            static_cast<size_t>(end - begin) * sizeof(T));
}

/// Calls `work(run, begin, end)` for the elements of each message.
template <typename T>
template <typename Work>
void FlatShard<T>::for_each_message_of(Work work) const {
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = runs_[i];
    for_each_message(static_cast<size_t>(run.size) * sizeof(T), [&](size_t offset, size_t bytes) {
      const int64_t begin = run.begin + static_cast<int64_t>(offset / sizeof(T));
      work(i, begin, begin + static_cast<int64_t>(bytes / sizeof(T)));
    });
  }
}

template <typename T>
void FlatShard<T>::fill(const TableCall& call) {
  for (size_t i = 0; i < runs_.size(); ++i) {
    std::memcpy(values(call.request().slot) + runs_[i].begin, call.data(i),
                static_cast<size_t>(runs_[i].size) * sizeof(T));
  }
}

template class FlatShard<float>;
template class FlatShard<double>;

}  // namespace strata::ps
