#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/example.h"
#include "strata/data/iterator.h"

namespace strata::data {

/// A function of one element. It must depend on its argument alone: elements that are skipped, or
/// lie behind a restored position, are never passed to it. It must not change its argument's
/// tensors in place (they may be views of the source); that is found out at the next element and
/// reported.
using MapFunction = std::function<Example(Example)>;

/// Yields elements until nullopt. Each iteration calls a fresh copy, so state belongs into the
/// function object itself: `[i = 0]() mutable -> std::optional<Example> {...}`.
using Generator = std::function<std::optional<Example>()>;

/// Makes a Generator for each iteration, where a copy cannot start afresh (an open file, say).
using GeneratorFactory = std::function<Generator()>;

struct BatchOptions {
  /// Leaves out a last batch with fewer rows.
  bool drop_remainder = false;
};

struct ShuffleOptions {
  /// The order depends on this, the epoch and nothing else: not on the clock, not on threads.
  uint64_t seed = 0;
  /// Whether each epoch (and each round of a later `repeat`) has its own order.
  bool reshuffle_each_iteration = true;
};

/// A sequence of Examples that can be iterated any number of times: a source and a chain of
/// transforms, as tf.data.Dataset. A value: copying is cheap, transforms return a new dataset,
/// nothing is read before an iterator asks.
///
///     Dataset train = Dataset::from_tensor_slices({images,
///     labels}).shuffle(60000).batch(128).prefetch(2); for (const Example& batch : train)
///     step(batch.x(), batch.y());
///
/// Epochs: each range-for over one dataset (or a copy of it) is the next epoch, 0 first;
/// `iterator(epoch)` takes one by number. A dataset built anew starts at 0 again.
///
/// Memory: elements of in-memory sources are views of the source's tensors, and what `cache` yields
/// is kept; do not change them in place (reported where it is seen). Batches of 1 or more rows are
/// always fresh copies. Chains of shuffle, take, skip, repeat, shard and cache over one in-memory
/// source (tensors, slices, range, IDX files) hand on row numbers only; `batch` then copies each
/// row once.
///
/// Threads: a dataset is immutable and shareable; see Iterator for iterators.
class STRATA_API Dataset {
 public:
  /// What `cardinality` returns for endless datasets, and for those that only reading can count.
  static constexpr int64_t kInfinite = -1;
  static constexpr int64_t kUnknown = -2;

  explicit Dataset(std::shared_ptr<const detail::Source> source);

  // ---- sources ----

  /// One element, `tensors` as they are.
  static Dataset from_tensors(const Example& tensors);

  /// One element for each index of dimension 0. Tensors that are dense and contiguous are shared,
  /// others copied once; dtypes stay (uint8 images stay uint8 until mapped).
  /// @throws Error kInvalidArgument: no fields, scalars, sizes of dimension 0 that differ, sparse
  /// tensors.
  static Dataset from_tensor_slices(const Example& tensors);

  static Dataset from_generator(Generator generator);
  static Dataset from_generator(GeneratorFactory factory);

  /// int64 scalars start, start + step, ... while below `stop` (above it for a negative step).
  static Dataset range(int64_t stop) { return range(0, stop); }
  static Dataset range(int64_t start, int64_t stop, int64_t step = 1);

  /// Slices of two IDX files (see idx_file.h), plain or .gz: x of `images`, y of `labels`.
  /// @throws Error kInvalidArgument: different numbers of rows; and as read_idx_file.
  static Dataset idx_files(const std::string& images, const std::string& labels);

  // ---- transforms ----

  /// `fn` of each element. See MapFunction for what it must not do.
  Dataset map(MapFunction fn) const;

  /// `batch_size` consecutive elements stacked along a new dimension 0; the last one may be
  /// smaller.
  /// @throws Error kInvalidArgument: batch_size < 1; from `next`: elements that differ in number of
  /// fields, shape or dtype.
  Dataset batch(int64_t batch_size, const BatchOptions& options = {}) const;

  /// The rows of each element, one by one: undoes `batch`.
  Dataset unbatch() const;

  /// Draws each element at random from a buffer of `buffer_size`, which input refills: a uniform
  /// permutation if the buffer holds everything, else a windowed one. The i-th draw is a
  /// counter-based random number keyed by (seed, epoch, i), see docs/data.md; a shuffle of
  /// another's output is keyed differently. Over in-memory sources the buffer holds row numbers (16
  /// bytes each), else the elements.
  Dataset shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const;

  /// `count` rounds; -1 is endless. Round r of epoch e is epoch e * count + r for what lies below.
  Dataset repeat(int64_t count = -1) const;

  /// The first `count` elements; -1 takes all.
  Dataset take(int64_t count) const;

  /// All but the first `count` elements; -1 skips all.
  Dataset skip(int64_t count) const;

  /// Elements index, index + num_shards, ... : one worker's part. Shard before shuffling, or with a
  /// seed that all workers share.
  Dataset shard(int64_t num_shards, int64_t index) const;

  /// Element i holds the fields of every dataset's element i; ends with the shortest.
  static Dataset zip(std::vector<Dataset> datasets);

  /// Keeps the elements of epoch 0 in memory as they are first read, and yields those in every
  /// epoch. A shuffle below is thereby frozen, also after a restart; shuffle behind it.
  Dataset cache() const;

  /// Runs what lies below on a thread of its own, `buffer_size` elements ahead. The thread starts
  /// with the first `next` and is joined by the iterator's destructor; torch operators run
  /// single-threaded on it.
  Dataset prefetch(int64_t buffer_size = 2) const;

  // ---- looking ----

  /// Number of elements, kInfinite or kUnknown; reads nothing.
  int64_t cardinality() const;

  /// Rows of each element but a ragged last one, where `batch` and what only orders or cuts
  /// elements say so; nullopt behind map, unbatch, generators, and without any batch. Tells a
  /// distribution the global batch.
  std::optional<int64_t> batch_size() const;

  // ---- iterating ----

  Iterator iterator(int64_t epoch) const;

  /// In the next epoch, counted in this dataset and its copies.
  Iterator iterator() const;

  class RangeIterator;
  RangeIterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  const std::shared_ptr<const detail::Source>& source() const { return source_; }

 private:
  std::shared_ptr<const detail::Source> source_;
};

/// What a range-for uses: an input iterator over one epoch.
class Dataset::RangeIterator {
 public:
  using value_type = Example;
  using difference_type = std::ptrdiff_t;

  explicit RangeIterator(Iterator iterator)
      : iterator_(std::move(iterator)), current_(iterator_.next()) {}

  const Example& operator*() const { return *current_; }
  const Example* operator->() const { return &*current_; }
  RangeIterator& operator++() {
    current_ = iterator_.next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const RangeIterator& it, std::default_sentinel_t) { return !it.current_; }

 private:
  Iterator iterator_;
  std::optional<Example> current_;
};

inline Dataset::RangeIterator Dataset::begin() const { return RangeIterator(iterator()); }

}  // namespace strata::data
