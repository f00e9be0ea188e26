#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/example.h"

namespace strata::data {

/// The position of an iterator: an immutable tree with one node for each transform (its name and a
/// few numbers), never the elements themselves. Copies are cheap; it converts to text and back
/// unchanged, so a checkpoint saves it as a string:
///
///     iterator[3](batch(shuffle[256,256,0,10000,7,1](slices[0])))
class STRATA_API Position {
 public:
  Position() = default;  // empty; so is `to_string()`
  Position(std::string kind, std::vector<int64_t> numbers, std::vector<Position> children = {});

  const std::string& kind() const;
  const std::vector<int64_t>& numbers() const;
  const std::vector<Position>& children() const;

  std::string to_string() const;

  /// @throws Error kInvalidArgument: `text` is not from `to_string`; names the offset.
  static Position from_string(std::string_view text);

  friend bool operator==(const Position& a, const Position& b) { return a.equals(b); }

 private:
  struct Node;
  const Node& node() const;
  bool equals(const Position& other) const;

  std::shared_ptr<const Node> node_;
};

/// Statistics of a pipeline since its iterator was made. To find out whether training waits for
/// input, compare `wait_time` with the duration of the loop.
struct IteratorStats {
  int64_t elements = 0;  ///< returned by `next`
  int64_t bytes = 0;     ///< in their tensors
  /// The duration of `next`, all calls together. Without threads that is computing the elements.
  std::chrono::nanoseconds wait_time{0};
  /// The time that threads worked on this iterator's elements, added up; without waiting for room
  /// or for each other.
  std::chrono::nanoseconds produce_time{0};
  int64_t buffered_bytes = 0;  ///< now, made ahead by prefetch, map and interleave
  /// elements that `ignore_errors` left out, also those read ahead
  int64_t ignored_errors = 0;
};

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
