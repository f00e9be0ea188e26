#pragma once

#include <c10/core/Scalar.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "strata/data/example.h"
#include "strata/data/options.h"
#include "strata/data/random_numbers.h"

namespace strata::data {

class Dataset;

// ---- user-defined functions ----
// All must depend on their arguments alone: elements that are skipped, or are before a restored
// position, may never be passed to them, others twice. They must not change tensors in place (these
// may be views of the source). With num_parallel_calls they are called by several threads at once.

using MapFunction = std::function<Example(Example)>;
/// A function that draws its random numbers from the key.
using KeyedMapFunction = std::function<Example(Example, const ElementKey&)>;
using Predicate = std::function<bool(const Example&)>;
/// Returns a dataset for one element.
using DatasetFunction = std::function<Dataset(Example)>;
using KeyFunction = std::function<int64_t(const Example&)>;
/// Returns the elements of one window, transformed.
using WindowFunction = std::function<Dataset(Dataset)>;
using GroupFunction = std::function<Dataset(int64_t key, Dataset)>;
/// Returns the length of an element.
using LengthFunction = std::function<int64_t(const Example&)>;

// ---- options ----

struct BatchOptions {
  /// Drops a last batch with fewer rows.
  bool drop_remainder = false;
};

struct ShuffleOptions {
  /// The order depends on this and the epoch alone: not on the clock, not on threads.
  uint64_t seed = 0;
  /// Whether each epoch (and each round of a later `repeat`) has its own order.
  bool reshuffle_each_iteration = true;
};

struct MapOptions {
  /// The number of elements that are computed at once, by threads ahead of the caller; 0: one by
  /// one, by the caller; kAutotune: as many as threads.
  int64_t num_parallel_calls = 0;
  /// Whether elements keep their order; if not, finished ones need not wait for a slow one.
  /// Default: Options::deterministic.
  std::optional<bool> deterministic = std::nullopt;
  /// The seed of ElementKey.
  uint64_t seed = 0;
};

struct InterleaveOptions {
  /// The number of datasets that take turns.
  int64_t cycle_length = 4;
  /// The number of consecutive elements of each.
  int64_t block_length = 1;
  /// The number of datasets that are read at once, by threads ahead of the caller; 0: by the
  /// caller; kAutotune: as many as threads.
  int64_t num_parallel_calls = 0;
  /// See MapOptions.
  std::optional<bool> deterministic = std::nullopt;
};

struct WindowOptions {
  int64_t size = 1;
  /// The distance between the first elements of consecutive windows; 0: `size`.
  int64_t shift = 0;
  /// The distance between consecutive elements of a window.
  int64_t stride = 1;
  /// Drops the last windows, which have fewer elements.
  bool drop_remainder = false;
};

struct PaddedBatchOptions {
  /// A shape for each field; -1: the longest in the batch. Empty: -1 everywhere.
  std::vector<std::vector<int64_t>> padded_shapes = {};
  /// A value for each field, or one for all; empty: 0.
  std::vector<at::Scalar> padding_values = {};
  bool drop_remainder = false;
};

struct BucketOptions {
  /// Upper ends of the buckets, excluded, ascending. Longer elements go to one more bucket.
  std::vector<int64_t> bucket_boundaries;
  /// The batch size of each bucket: one more than boundaries.
  std::vector<int64_t> bucket_batch_sizes;
  std::vector<std::vector<int64_t>> padded_shapes = {};
  std::vector<at::Scalar> padding_values = {};
  /// Pads -1 to the bucket's largest length, boundary - 1; then the last bucket must stay empty.
  bool pad_to_bucket_boundary = false;
  /// Requires the elements of a bucket to have one shape.
  bool no_padding = false;
  bool drop_remainder = false;
};

struct SampleOptions {
  /// The probability of each dataset, up to a common factor; empty: all equal.
  std::vector<double> weights = {};
  uint64_t seed = 0;
  /// Ends with the first dataset that is drawn and has ended; else continues with the others.
  bool stop_on_empty_dataset = false;
  /// Whether each epoch has its own draws.
  bool rerandomize_each_iteration = true;
};

}  // namespace strata::data
