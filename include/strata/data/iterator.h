#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "strata/core/export.h"
#include "strata/data/example.h"
#include "strata/data/iterator_stats.h"
#include "strata/data/position.h"

namespace strata::data {

namespace detail {
class Pipeline;
class Source;
template <class T>
class Stream;
}  // namespace detail

/// One pass over a dataset, which stays alive as long as the iterator does.
///
///     Iterator it = dataset.iterator(epoch);
///     while (std::optional<Example> batch = it.next()) train(*batch);
///
/// Threads: one at a time; different iterators of one dataset may run at once.
class STRATA_API Iterator {
 public:
  /// The iterator over `source` in `epoch`. Use Dataset::iterator.
  Iterator(std::shared_ptr<const detail::Source> source, int64_t epoch);
  ~Iterator();
  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;

  /// Returns the next element; nullopt at the end, and ever after. It throws the exceptions of the
  /// user's functions; the element that failed is then consumed, and the next call continues after
  /// it.
  [[nodiscard]] std::optional<Example> next();

  /// The position of the iteration: after the element that `next` returned last, however far a
  /// prefetch has read ahead. After an error it is after the element that failed. Cost: a few small
  /// allocations; no element is touched.
  Position position() const;

  /// Moves to `position`, from an iterator over a dataset built by the same transforms, in this
  /// process or another. `next` then yields exactly the rest, in the position's epoch. The
  /// dataset's next range-for takes the epoch after that. Cost: in-memory sources jump; a generator
  /// is run again up to there; a shuffle redraws its past choices (5 ns each) and reads the
  /// contents of its buffer again. Mapped functions are not called for elements before the
  /// position.
  /// @throws Error kInvalidArgument: another pipeline's position; this iterator then keeps its own.
  void restore(const Position& position);

  int64_t epoch() const { return epoch_; }

  /// Times and counters of this iterator. Cost: negligible; counting costs `next` 0.1 us.
  IteratorStats stats() const;

 private:
  std::shared_ptr<const detail::Source> source_;  // before stream_, which refers to it
  std::unique_ptr<detail::Pipeline> pipeline_;    // refers to it, too
  int64_t epoch_;
  std::unique_ptr<detail::Stream<Example>> stream_;
  bool ended_ = false;
};

}  // namespace strata::data
