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
#include "strata/data/options.h"

namespace strata::data {

/// Yields elements until nullopt, or until it throws. Each iteration calls a fresh copy, so state
/// belongs into the function object itself: `[i = 0]() mutable -> std::optional<Example> {...}`.
using Generator = std::function<std::optional<Example>()>;

/// Makes a Generator for each iteration, for state that a copy cannot restart (an open file, for
/// example).
using GeneratorFactory = std::function<Generator()>;

/// A sequence of Examples that can be iterated any number of times: a source and a chain of
/// transforms, as tf.data.Dataset. A value: copying is cheap, transforms return a new dataset,
/// nothing is read before an iterator calls for it.
///
///     Dataset train = Dataset::from_tensor_slices({images, labels})
///                         .shuffle(60000)
///                         .batch(128)
///                         .prefetch(2);
///     for (const Example& batch : train) step(batch.x(), batch.y());
///
/// Epochs: each range-for over one dataset (or a copy of it) is the next epoch, 0 first;
/// `iterator(epoch)` takes one by number. A dataset built anew starts at 0 again.
///
/// Memory: elements of in-memory sources are views of the source's tensors, and the elements of
/// `cache` are kept; do not change them in place (changes are reported where they are detected).
/// Batches of 1 or more rows are always fresh copies. Chains of shuffle, take, skip, repeat, shard
/// and cache over one in-memory source (tensors, slices, range, IDX files) pass only row numbers
/// on; `batch` then copies each row once.
///
/// Threads: a dataset is immutable and shareable; see Iterator for iterators.
class STRATA_API Dataset {
 public:
  /// The cardinality of endless datasets, and of those that only reading can count.
  static constexpr int64_t kInfinite = -1;
  static constexpr int64_t kUnknown = -2;

  explicit Dataset(std::shared_ptr<const detail::Source> source);

  // ---- sources ----

  /// One element, `tensors` unchanged.
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

  /// Slices of two IDX files (see mnist.h), plain or .gz: x of `images`, y of `labels`.
  /// @throws Error kInvalidArgument: different numbers of rows; and as read_idx_file.
  static Dataset idx_files(const std::string& images, const std::string& labels);

  // ---- transforms ----

  /// Applies `fn` to each element. transform_options.h documents the rules for functions. `next`
  /// throws `fn`'s exception in the element's place.
  Dataset map(MapFunction fn, const MapOptions& options = {}) const;

  /// Does the same for functions that draw random numbers: (Example, const ElementKey&) -> Example.
  Dataset map(KeyedMapFunction fn, const MapOptions& options = {}) const;

  /// Keeps the elements for which `predicate` is true.
  Dataset filter(Predicate predicate) const;

  /// Keeps the elements before the first one for which `predicate` is false.
  Dataset take_while(Predicate predicate) const;

  /// Concatenates the datasets that `fn` returns for each element.
  Dataset flat_map(DatasetFunction fn) const;

  /// Interleaves the elements of `cycle_length` such datasets, `block_length` elements from each in
  /// turn; when one ends, `fn` of the next input element replaces it in its turn. Parallel and
  /// serial give the same order, unless `deterministic` is false: then any dataset with ready
  /// elements may be next, and the order within each stays.
  Dataset interleave(DatasetFunction fn, const InterleaveOptions& options = {}) const;

  /// Appends `other`'s elements.
  Dataset concatenate(const Dataset& other) const;

  /// Stacks `batch_size` consecutive elements along a new dimension 0; the last batch may be
  /// smaller.
  /// @throws Error kInvalidArgument: batch_size < 1; from `next`: elements that differ in number of
  /// fields, shape or dtype.
  Dataset batch(int64_t batch_size, const BatchOptions& options = {}) const;

  /// Does the same for elements whose sizes differ: each is padded at its ends to `padded_shapes`,
  /// or to the longest in the batch.
  /// @throws Error kInvalidArgument from `next`: an element larger than its padded shape, or
  /// another number of dimensions.
  Dataset padded_batch(int64_t batch_size, const PaddedBatchOptions& options = {}) const;

  /// Splits each element into its rows: the inverse of `batch`.
  Dataset unbatch() const;

  /// Makes batches of the given sizes, in turn, whatever the batches of the input: rows are carried
  /// over their ends. A size of 0 makes an empty batch. The last one may be smaller.
  Dataset rebatch(std::vector<int64_t> batch_sizes, const BatchOptions& options = {}) const;

  /// Window k is the elements k * shift, k * shift + stride, ... up to `size` of them, stacked as
  /// `batch` does. (tf.data's windows are datasets: see the next one.)
  Dataset window(const WindowOptions& options) const;

  /// Concatenates the datasets that `fn` returns for each window, which is a dataset of up to
  /// `size` elements: tf.data's window and flat_map in one.
  Dataset window(const WindowOptions& options, WindowFunction fn) const;

  /// Collects elements by `key`; when `window_size` have the same, the elements of `reduce(key,
  /// dataset of them)` follow. The rest is yielded at the end in the order of the keys.
  Dataset group_by_window(KeyFunction key, GroupFunction reduce, int64_t window_size) const;
  Dataset group_by_window(KeyFunction key, GroupFunction reduce,
                          std::function<int64_t(int64_t key)> window_size) const;

  /// Batches elements of similar length, padded to the longest of each batch.
  /// @throws Error kInvalidArgument: options that do not match; from `next` as padded_batch.
  Dataset bucket_by_sequence_length(LengthFunction length, const BucketOptions& options) const;

  /// Adds a new field 0 to element i: its number `start` + i, an int64 scalar.
  Dataset enumerate(int64_t start = 0) const;

  /// Leaves out the elements whose computation threw, and counts them (Iterator::stats).
  /// kCancelled, kFailedPrecondition and kInternal are still thrown, and an error that is repeated
  /// without any progress of the input.
  Dataset ignore_errors() const;

  /// Draws each element at random from a buffer of `buffer_size`, which input refills: a uniform
  /// permutation if the buffer holds everything, else a windowed one. The i-th draw is a
  /// counter-based random number keyed by (seed, epoch, i), see docs/data.md; a shuffle of
  /// another's output is keyed differently. Over in-memory sources the buffer holds row numbers (16
  /// bytes each), else the elements.
  Dataset shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const;

  /// Repeats `count` rounds; -1 is endless. Round r of epoch e is epoch e * count + r for the
  /// input.
  Dataset repeat(int64_t count = -1) const;

  /// Keeps the first `count` elements; -1 keeps all.
  Dataset take(int64_t count) const;

  /// Drops the first `count` elements; -1 drops all.
  Dataset skip(int64_t count) const;

  /// Keeps elements index, index + num_shards, ... : one worker's part. Shard before shuffling, or
  /// with a seed that all workers share. With (kShardHint, kShardHint) a distribution sets the
  /// numbers (AutoShardPolicy::kHint); until then all elements are kept.
  Dataset shard(int64_t num_shards, int64_t index) const;

  /// Element i holds the fields of every dataset's element i; ends with the shortest.
  static Dataset zip(std::vector<Dataset> datasets);

  /// Keeps the elements of epoch 0 in memory as they are first read, and yields those in every
  /// epoch. A shuffle before it is thereby frozen, also after a restart; shuffle after it.
  Dataset cache() const;

  /// Does the same in the file `path` (see file_system.h), for data that does not fit into memory.
  /// The file has another name (.partial) until a pass has ended, and is not read before. A
  /// complete one is used by every later process, without a look at the input: remove it when the
  /// input changes. Checksums guard every element.
  /// @throws Error from `next`: kDataLoss: not such a file, or damaged; and as FileSystem.
  Dataset cache(const std::string& path) const;

  /// Runs the input on a thread of its own, `buffer_size` elements ahead and within
  /// Options::memory_budget, until the iterator is destroyed; torch operators run single-threaded.
  /// kAutotune: as many as `next` needs so as not to wait; while elements cost less than passing
  /// them between threads (some 50 us) none, and no thread: `next` makes them itself, with the same
  /// bits.
  Dataset prefetch(int64_t buffer_size = 2) const;

  /// Takes each element from one of `datasets`, drawn at random with `weights`: draw i of epoch e
  /// is keyed by (seed, e, i). Ends when all have ended; see SampleOptions.
  static Dataset sample_from_datasets(std::vector<Dataset> datasets,
                                      const SampleOptions& options = {});

  /// Takes each element from the dataset with the number in `choices`, int64 scalars. When one of
  /// them has ended, all end, or it is skipped.
  static Dataset choose_from_datasets(std::vector<Dataset> datasets, const Dataset& choices,
                                      bool stop_on_empty_dataset = true);

  /// The same elements under `options`, which override earlier ones.
  Dataset with_options(const Options& options) const;

  // ---- inspecting ----

  /// Number of elements, kInfinite or kUnknown; reads nothing.
  int64_t cardinality() const;

  /// Rows of each element except for a ragged last one, if it is known from `batch` and transforms
  /// that only order or cut elements; nullopt after map, unbatch, generators, and without any
  /// batch. A distribution takes it for the global batch.
  std::optional<int64_t> batch_size() const;

  /// Options set by `with_options`, here and before.
  Options options() const;

  /// Shape and dtype of each field, as far as sources and transforms define them; nullopt after
  /// functions and generators. -1 for sizes that differ. Reads nothing.
  std::optional<ElementSpec> known_element_spec() const;

  /// The same, or else that of the first element of epoch 0, which it computes: its sizes then
  /// replace unknown ones. @throws Error kOutOfRange: the dataset is empty.
  ElementSpec element_spec() const;

  // ---- iterating ----

  /// Folds `fn(...fn(fn(state, element 0), element 1)...)` over the next epoch.
  template <class State, class Fn>
  State reduce(State state, Fn&& fn) const;

  Iterator iterator(int64_t epoch) const;

  /// Starts the next epoch, counted in this dataset and its copies.
  Iterator iterator() const;

  class RangeIterator;
  RangeIterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  const std::shared_ptr<const detail::Source>& source() const { return source_; }

 private:
  std::shared_ptr<const detail::Source> source_;
};

/// The iterator of range-for: an input iterator over one epoch.
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

template <class State, class Fn>
State Dataset::reduce(State state, Fn&& fn) const {
  for (const Example& element : *this) state = fn(std::move(state), element);
  return state;
}

}  // namespace strata::data
