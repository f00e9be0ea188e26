#include "ps/tables/row_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/nontemporal_copy.h"
#include "ps/tables/gradient_values.h"
#include "ps/tables/message_blocks.h"
#include "ps/tables/row_values.h"
#include "strata/core/error.h"

namespace strata::ps {
namespace {

/// Rows lie anywhere in memory: so many before its turn, a row is fetched.
constexpr size_t kAhead = 16;

/// Always inline: GCC takes a function that does nothing else for one that does nothing.
template <typename T>
__attribute__((always_inline)) inline void fetch(const T* row, int64_t width) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i, 0, 2);
}

}  // namespace

template <typename T>
RowShard<T>::RowShard(const TableSpec& spec, int server, int servers, BufferPool& pool, Done done)
    : Shard(spec, pool, std::move(done)),
      server_(server),
      servers_(servers),
      local_rows_((spec_.rows - server + servers - 1) / servers),
      parameters_({{.sizes = {local_rows_ * spec_.width}}}, spec_.dtype) {
  data_.push_back(static_cast<T*>(parameters_.flat().mutable_data_ptr()));
  for (int slot = 0; slot < rule_->num_slots(); ++slot) {
    slots_.push_back(parameters_.make_like());
    data_.push_back(static_cast<T*>(slots_.back().flat().mutable_data_ptr()));
    const double initial = rule_->slot_initial_value(slot);
    if (initial != 0) {
      std::fill_n(data_.back(), local_rows_ * spec_.width, static_cast<T>(initial));
    }
  }
  initialize();
}

template <typename T>
void RowShard<T>::initialize() {
  const RowInitializer& initializer = spec_.initializer;
  if (initializer.kind == RowInitializer::Kind::kConstant && initializer.a == 0) return;
  for (int64_t i = 0; i < local_rows_; ++i) {
    make_row(initializer, i * servers_ + server_, spec_.width, data_[0] + i * spec_.width);
  }
}

template <typename T>
PartSizes RowShard<T>::do_data_sizes_of(const Request& request) const {
  const RequestKind kind = request.kind;
  const bool of_rows = kind == RequestKind::kPullRows || kind == RequestKind::kPushRows;
  const auto width = static_cast<size_t>(spec_.width);
  STRATA_CHECK(request.rows <= static_cast<uint64_t>(local_rows_) && (of_rows || request.rows == 0),
               kInvalidArgument, "[ps] table '", spec_.name, "': got ", request.rows,
               " rows; this server has ", local_rows_, ", each of which comes once");
  size_t wanted = 0;
  if (kind == RequestKind::kPushRows) {
    wanted = request.rows * width * bytes_of_element<T>(request.encoding);
  } else if (kind == RequestKind::kFill) {
    wanted = static_cast<size_t>(local_rows_) * width * sizeof(T);
  }
  STRATA_CHECK(request.data_bytes == wanted, kInvalidArgument, "[ps] table '", spec_.name,
               "': got ", request.data_bytes, " bytes; expected ", wanted, " for ", request.rows,
               " rows of ", spec_.width);
  STRATA_CHECK(request.slot >= 0 && request.slot <= rule_->num_slots(), kInvalidArgument,
               "[ps] table '", spec_.name, "': got slot ", request.slot - 1, " of ", rule_->name(),
               ", which has ", rule_->num_slots());
  return wanted == 0 ? PartSizes() : PartSizes{wanted};
}

template <typename T>
PartSizes RowShard<T>::answer_sizes_of(const Request& request) const {
  int64_t rows = 0;
  if (request.kind == RequestKind::kPullRows) rows = static_cast<int64_t>(request.rows);
  if (request.kind == RequestKind::kRead) rows = local_rows_;
  if (rows == 0) return {};
  return {static_cast<size_t>(rows * spec_.width) * sizeof(T)};
}

template <typename T>
void RowShard<T>::check_rows(const TableCall& call) const {
  const int64_t* rows = call.rows();
  int64_t last = -1;
  for (uint64_t i = 0; i < call.request().rows; ++i) {
    const int64_t row = rows[i];
    const bool own = servers_ == 1 || row % servers_ == server_;
    STRATA_CHECK(row > last && row < spec_.rows && own, kInvalidArgument, "[ps] table '",
                 spec_.name, "': got row ", row, " behind row ", last, " from ", call.worker(),
                 "; this server has the rows below ", spec_.rows, " that are ", server_, " modulo ",
                 servers_, ", which come in ascending order");
    last = row;
  }
}

template <typename T>
void RowShard<T>::check(const TableCall& push) const {
  check_rows(push);
  if (push.request().kind != RequestKind::kPushRows) return;
  const int64_t bad = push.not_finite.value_or(0);
  STRATA_CHECK(!push.not_finite, kInvalidArgument, "[ps] table '", spec_.name,
               "': got a gradient that is not finite from ", push.worker(), ", row ",
               push.rows()[bad / spec_.width], ", column ", bad % spec_.width,
               "; nothing of this push was applied");
}

template <typename T>
void RowShard<T>::apply(const std::vector<const TableCall*>& pushes, const Update& update,
                        const std::vector<TableCall*>&) {
  struct Place {
    int64_t row;
    size_t push;
    int64_t at;  // in it
  };
  const auto fetch_all = [&](int64_t row) __attribute__((always_inline)) {
    for (const T* array : data_) fetch(array + local(row) * spec_.width, spec_.width);
  };
  std::vector<T> buffer(static_cast<size_t>(spec_.width));
  const auto gradient_of = [&](const Place& place, T* into) {
    const TableCall& push = *pushes[place.push];
    return gradient_values(push.data(0), push.request().encoding, place.at * spec_.width,
                           spec_.width, into);
  };
  if (pushes.size() == 1) {
    const int64_t* rows = pushes[0]->rows();
    const size_t count = pushes[0]->request().rows;
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) fetch_all(rows[i + kAhead]);
      apply_row(rows[i], gradient_of({rows[i], 0, static_cast<int64_t>(i)}, buffer.data()), update);
    }
    return;
  }
  std::vector<Place> places;
  for (size_t p = 0; p < pushes.size(); ++p) {
    for (uint64_t i = 0; i < pushes[p]->request().rows; ++i) {
      places.push_back({pushes[p]->rows()[i], p, static_cast<int64_t>(i)});
    }
  }
  std::ranges::stable_sort(places, {}, &Place::row);
  std::vector<T> sum(static_cast<size_t>(spec_.width));
  for (size_t i = 0; i < places.size();) {
    const int64_t row = places[i].row;
    std::ranges::fill(sum, T(0));
    for (; i < places.size() && places[i].row == row; ++i) {
      const T* gradient = gradient_of(places[i], buffer.data());
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += gradient[j];
    }
    if (i + kAhead < places.size()) fetch_all(places[i + kAhead].row);
    apply_row(row, sum.data(), update);
  }
}

template <typename T>
void RowShard<T>::apply_row(int64_t row, const T* gradient, const Update& update) {
  const int64_t at = local(row) * spec_.width;
  tensor::UpdateSpan<T> span{.parameter = data_[0] + at,
                             .gradient = gradient,
                             .size = spec_.width,
                             .gradient_scale = update.scale,
                             .clip_value = update.clip_value,
                             .weight_decay = update.weight_decay};
  for (size_t slot = 1; slot < data_.size(); ++slot) span.slots[slot - 1] = data_[slot] + at;
  rule_->apply(span, update.step);
}

template <typename T>
void RowShard<T>::send_values(TableCall& call) {
  const PartSizes sizes = answer_sizes_of(call.request());
  if (sizes.empty()) return;
  const auto width = static_cast<size_t>(spec_.width) * sizeof(T);
  const T* values = data_[static_cast<size_t>(call.request().slot)];
  const bool all = call.request().kind == RequestKind::kRead;
  const size_t count = sizes[0] / width;
  call.make_room(pool_, sizes);
  std::byte* const to = call.room(0);
  // Whole lines of the worker's memory: as in FlatShard.
  const bool streams =
      call.in_place() && width % 64 == 0 && reinterpret_cast<uintptr_t>(to) % 64 == 0;
  const auto copy_row = [&](std::byte* target, const T* row) {
    if (streams) {
      strata::detail::nontemporal_copy(target, reinterpret_cast<const std::byte*>(row),
                                       static_cast<int64_t>(width));
    } else {
      std::memcpy(target, row, width);
    }
  };
  size_t next = 0;  // row
  for_each_message(count * width, [&](size_t offset, size_t size) {
    for (; next * width < offset + size; ++next) {
      if (!all && next + kAhead < count) {
        fetch(values + local(call.rows()[next + kAhead]) * spec_.width, spec_.width);
      }
      const int64_t row = all ? static_cast<int64_t>(next) : local(call.rows()[next]);
      copy_row(to + next * width, values + row * spec_.width);
    }
    call.send(0, offset, size);
  });
  strata::detail::nontemporal_fence();
}

template <typename T>
void RowShard<T>::fill(const TableCall& call) {
  if (call.data_sizes().empty()) return;
  std::memcpy(data_[static_cast<size_t>(call.request().slot)], call.data(0), call.data_sizes()[0]);
}

template class RowShard<float>;
template class RowShard<double>;

}  // namespace strata::ps
