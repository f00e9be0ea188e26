#pragma once

#include <cstdint>
#include <optional>

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

}  // namespace strata::data
