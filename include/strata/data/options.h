#pragma once

#include <c10/core/Scalar.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "strata/data/example.h"
#include "strata/data/random_numbers.h"

namespace strata::data {

/// Replaces a number that strata chooses itself. Source: tf.data.AUTOTUNE.
inline constexpr int64_t kAutotune = -1;

/// The division of a dataset among the workers. Source: tf.data.experimental.AutoShardPolicy.
enum class AutoShardPolicy {
  kOff = -1,  ///< every worker reads everything
  kAuto = 0,  ///< kData: the same bits for any number of workers
  kFile = 1,  ///< whole files to each worker
  kData = 2,  ///< every worker reads everything and makes its part of each batch
  kHint = 3,  ///< by `shard(kShardHint, kShardHint)` in the dataset
};

/// Replaces the number of workers and the worker in `shard`, until a distribution knows them.
inline constexpr int64_t kShardHint = -1;

/// Options of a whole dataset, see Dataset::with_options. Unset ones are inherited from the input,
/// and last from the default. None of them changes the elements, only `deterministic` the order.
struct Options {
  std::optional<AutoShardPolicy> auto_shard_policy = std::nullopt;  ///< default kAuto
  /// Whether parallel transforms keep the order, unless they set it themselves. Default true.
  std::optional<bool> deterministic = std::nullopt;
  /// Threads that an iterator's parallel transforms share; default: as many as cores, or as the
  /// largest num_parallel_calls.
  std::optional<int64_t> num_threads = std::nullopt;
  /// Bytes that an iterator may compute ahead; default 1 GiB. The next element is always computed,
  /// even if it alone is larger.
  std::optional<int64_t> memory_budget = std::nullopt;
};

/// The compression of a file. Gzip and zlib need a strata that was built with zlib.
enum class Compression {
  kAuto,  ///< by the first bytes: gzip or plain (TFRecord files: zlib too), whatever the name
  kNone,
  kGzip,  ///< one or more gzip members, one behind the other
  kZlib,  ///< one zlib stream (RFC 1950), TensorFlow's "ZLIB"
};

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
