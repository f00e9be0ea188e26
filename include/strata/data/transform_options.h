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

// ---- functions that users write ----
// All must depend on their arguments alone: elements that are skipped, or lie behind a restored
// position, may never be passed to them, others twice. They must not change tensors in place (these
// may be views of the source). With num_parallel_calls they are called by several threads at once.

using MapFunction = std::function<Example(Example)>;
/// Draws its random numbers from the key.
using KeyedMapFunction = std::function<Example(Example, const ElementKey&)>;
using Predicate = std::function<bool(const Example&)>;
/// A dataset for one element.
using DatasetFunction = std::function<Dataset(Example)>;
using KeyFunction = std::function<int64_t(const Example&)>;
/// What becomes of the elements of one window.
using WindowFunction = std::function<Dataset(Dataset)>;
using GroupFunction = std::function<Dataset(int64_t key, Dataset)>;
/// How long an element is.
using LengthFunction = std::function<int64_t(const Example&)>;

// ---- options ----

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

struct MapOptions {
  /// How many elements are worked on at once, by threads ahead of the caller; 0: by the caller, one
  /// by one; kAutotune: as many as threads.
  int64_t num_parallel_calls = 0;
  /// Whether elements keep their order; if not, finished ones need not wait for a slow one. Unset:
  /// Options::deterministic.
  std::optional<bool> deterministic = std::nullopt;
  /// Of ElementKey.
  uint64_t seed = 0;
};

struct InterleaveOptions {
  /// Datasets that take turns.
  int64_t cycle_length = 4;
  /// Consecutive elements of each.
  int64_t block_length = 1;
  /// How many of them are read at once, by threads ahead of the caller; 0: by the caller;
  /// kAutotune: as many as threads.
  int64_t num_parallel_calls = 0;
  /// As MapOptions.
  std::optional<bool> deterministic = std::nullopt;
};

struct WindowOptions {
  int64_t size = 1;
  /// Elements from one window's first to the next one's; 0: `size`.
  int64_t shift = 0;
  /// Elements from one of a window to the next.
  int64_t stride = 1;
  /// Leaves out the last windows, which have fewer elements.
  bool drop_remainder = false;
};

struct PaddedBatchOptions {
  /// A shape a field; -1: the longest in the batch. Empty: -1 everywhere.
  std::vector<std::vector<int64_t>> padded_shapes = {};
  /// A value a field, or one for all; empty: 0.
  std::vector<at::Scalar> padding_values = {};
  bool drop_remainder = false;
};

struct BucketOptions {
  /// Upper ends of the buckets, excluded, ascending. Longer elements go to one more bucket.
  std::vector<int64_t> bucket_boundaries;
  /// One more than boundaries.
  std::vector<int64_t> bucket_batch_sizes;
  std::vector<std::vector<int64_t>> padded_shapes = {};
  std::vector<at::Scalar> padding_values = {};
  /// Pad -1 to the bucket's largest length, boundary - 1; then the last bucket must stay empty.
  bool pad_to_bucket_boundary = false;
  /// Elements of a bucket are all of one shape.
  bool no_padding = false;
  bool drop_remainder = false;
};

struct SampleOptions {
  /// How likely each dataset is, up to a common factor; empty: all alike.
  std::vector<double> weights = {};
  uint64_t seed = 0;
  /// Ends with the first dataset that is drawn and has ended; else goes on with the others.
  bool stop_on_empty_dataset = false;
  /// Whether each epoch has its own draws.
  bool rerandomize_each_iteration = true;
};

}  // namespace strata::data
