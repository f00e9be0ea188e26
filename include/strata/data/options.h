#pragma once

#include <cstdint>
#include <optional>

namespace strata::data {

/// In place of a number: let strata choose. Source: tf.data.AUTOTUNE.
inline constexpr int64_t kAutotune = -1;

/// How the workers of a cluster share a dataset. Source: tf.data.experimental.AutoShardPolicy.
enum class AutoShardPolicy {
  kOff = -1,  ///< every worker reads everything
  kAuto = 0,  ///< kData: the same bits however many workers there are
  kFile = 1,  ///< whole files to each worker
  kData = 2,  ///< every worker goes through everything and makes its part of each batch
  kHint = 3,  ///< where the dataset says `shard(kShardHint, kShardHint)`
};

/// Stands for the number of workers and for the worker in `shard`, until a distribution knows them.
inline constexpr int64_t kShardHint = -1;

/// Of a whole dataset, see Dataset::with_options. What is not set is left to what lies below, and
/// last to the default. None of them changes what comes, only `deterministic` the order.
struct Options {
  std::optional<AutoShardPolicy> auto_shard_policy = std::nullopt;  ///< default kAuto
  /// Whether parallel transforms keep the order, where they do not say so themselves. Default true.
  std::optional<bool> deterministic = std::nullopt;
  /// Threads that an iterator's parallel transforms share; default: as many as cores, or as the
  /// largest num_parallel_calls.
  std::optional<int64_t> num_threads = std::nullopt;
  /// Bytes that an iterator may make ahead of who reads it; default 1 GiB. What is next is always
  /// made, even if it alone is larger.
  std::optional<int64_t> memory_budget = std::nullopt;
};

}  // namespace strata::data
