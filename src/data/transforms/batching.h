#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/source.h"
#include "data/transforms/batch_slices.h"

namespace strata::data::detail {

struct Batching {
  int64_t batch_size;
  bool drop_remainder = false;
  BatchSlices parts = BatchSlices(1);  // of each batch, whose rows are there
};

/// Collects elements of type T, and makes one of them. Of rows that its parts do not have none is
/// made; where they have none at all, the batch has 0 rows. Holds nothing between batches, so the
/// input's position says it all, whatever the parts are.
template <class T>
class BatchingStream : public ExampleStream {
 public:
  /// @param kind  Of the positions.
  BatchingStream(const char* kind, const Source& source, uint64_t epoch, Batching batching)
      : kind_(kind),
        source_(source),
        epoch_(epoch),
        batching_(std::move(batching)),
        input_(open_stream<T>(source, epoch)) {
    // Whatever batch size the user asks for.
    constexpr int64_t kMaxReserve = 1 << 20;
    const int64_t rows = batching_.parts.count_rows(batching_.batch_size);
    elements_.reserve(static_cast<size_t>(std::min(rows, kMaxReserve)));
  }

  bool next(Example& out) final {
    if (ended_) return false;
    announce();
    std::optional<Position> before;
    if (!batching_.parts.are_all()) before = input_->position();
    const int64_t rows = collect(batching_.batch_size);
    ended_ = rows < batching_.batch_size;
    if (ended_ && before && !batching_.drop_remainder) collect_again(*before, rows);
    // This batch is lost, and the next one what it would have been.
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (rows == 0 || (ended_ && batching_.drop_remainder)) return false;
    out = make(elements_);
    elements_.clear();
    if (batching_.parts.count_rows(rows) > 0) return true;
    for (at::Tensor& field : out.fields) field = field.narrow(0, 0, 0);
    return true;
  }

  int64_t skip(int64_t count) final {
    announce();
    int64_t skipped = 0;
    while (skipped < count && !ended_) {
      const int64_t rows = input_->skip(batching_.batch_size);
      ended_ = rows < batching_.batch_size;
      if (rows == 0 || (ended_ && batching_.drop_remainder)) break;
      ++skipped;
    }
    return skipped;
  }

  Position position() const final { return Position(kind_, {}, {input_->position()}); }

  void restore(const Position& position) final {
    expect_position(position, kind_, 0, 1);
    input_->restore(position.children()[0]);
  }

 private:
  /// The batch of `elements`, at least one.
  virtual Example make(const std::vector<T>& elements) = 0;

  /// Of a batch of `rows`. Where the parts have none, the first one shows what rows are like.
  NeededElements needed_rows(int64_t rows) const {
    NeededElements needed{.period = rows, .ranges = batching_.parts.ranges(rows)};
    if (needed.ranges.empty()) needed.ranges.push_back({.begin = 0, .end = 1});
    return needed;
  }

  void announce() {
    if (begun_) return;
    begun_ = true;
    if (!batching_.parts.are_all()) input_->prune(needed_rows(batching_.batch_size));
  }

  /// Takes the needed rows of the next `rows`, or an error, and passes the others.
  /// @return how many rows there were, whether needed or not.
  int64_t collect(int64_t rows) {
    elements_.clear();
    error_ = nullptr;
    int64_t row = 0;
    T element{};
    const NeededElements needed = needed_rows(rows);
    for (const auto& [begin, end] : needed.ranges) {
      row += input_->skip(begin - row);
      if (row < begin) return row;
      try {
        for (; row < end; ++row) {
          if (!input_->next(element)) return row;
          elements_.push_back(std::move(element));
        }
      } catch (...) {
        error_ = std::current_exception();
        ++row;
        break;
      }
    }
    return row + input_->skip(rows - row);
  }

  /// The last batch has only so many `rows`, of which other ones are the parts'.
  void collect_again(const Position& before, int64_t rows) {
    if (rows == 0) return;
    input_ = open_stream<T>(source_, epoch_);
    input_->restore(before);
    input_->prune(needed_rows(rows));
    const int64_t again = collect(rows);
    STRATA_CHECK(again == rows, kInvalidArgument, "[data] ", kind_, ": got a last batch of ", rows,
                 " rows, and then of ", again,
                 "; expected the same elements when they are read again; a generator must repeat "
                 "itself");
    input_->skip(1);  // finds the end, as the whole batch does
  }

  const char* kind_;
  const Source& source_;
  const uint64_t epoch_;
  const Batching batching_;
  std::unique_ptr<Stream<T>> input_;
  std::vector<T> elements_;
  std::exception_ptr error_;  // instead of elements_
  bool begun_ = false;
  bool ended_ = false;
};

/// Of batches. `n` elements, or Dataset::kInfinite, kUnknown.
inline int64_t batched_cardinality(int64_t n, int64_t batch_size, bool drop_remainder) {
  if (n < 0) return n;
  return n / batch_size + (!drop_remainder && n % batch_size > 0 ? 1 : 0);
}

}  // namespace strata::data::detail
