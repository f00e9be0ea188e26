#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"
#include "strata/ps/variable_spec.h"

namespace strata::ps {

/// Returns the number of parts of a variable along axis 0, 1 or more.
/// Source: tf.distribute.experimental.partitioners.Partitioner, whose answers for other axes
/// ParameterServerStrategy refuses.
using Partitioner = std::function<int64_t(const VariableSpec& variable)>;

/// Cuts a variable into `num_shards` parts, or one for each row if there are fewer rows.
class STRATA_API FixedShardsPartitioner {
 public:
  /// @throws Error  kInvalidArgument: `num_shards` is not positive.
  explicit FixedShardsPartitioner(int64_t num_shards);
  int64_t operator()(const VariableSpec& variable) const;

 private:
  int64_t num_shards_;
};

struct MinSizePartitionerOptions {
  int64_t min_shard_bytes = 256 << 10;
  int64_t max_shards = 1;
};

/// Cuts a variable into one part for each `min_shard_bytes` begun, at most `max_shards` and one for
/// each row. So parts may be below the minimum, as TensorFlow's are: 65537 rows of one float are 2
/// parts of 128 KiB.
class STRATA_API MinSizePartitioner {
 public:
  /// @throws Error  kInvalidArgument: an option is not positive.
  explicit MinSizePartitioner(MinSizePartitionerOptions options = {});
  int64_t operator()(const VariableSpec& variable) const;

 private:
  MinSizePartitionerOptions options_;
};

struct MaxSizePartitionerOptions {
  int64_t max_shard_bytes;
  /// takes precedence over `max_shard_bytes`; nullopt: any
  std::optional<int64_t> max_shards = std::nullopt;
};

/// Cuts a variable into the fewest parts of at most `max_shard_bytes`, as far as whole rows allow.
class STRATA_API MaxSizePartitioner {
 public:
  /// @throws Error  kInvalidArgument: an option is not positive.
  explicit MaxSizePartitioner(MaxSizePartitionerOptions options);
  int64_t operator()(const VariableSpec& variable) const;

 private:
  MaxSizePartitionerOptions options_;
};

/// Returns the first row of each of `parts` parts of `rows` rows, and `rows` at the end. The parts
/// differ by one row at most, the larger ones first. 13 rows in 5: 0, 3, 6, 9, 11, 13.
STRATA_API std::vector<int64_t> split_rows(int64_t rows, int64_t parts);

/// TensorFlow's name of a part of a variable: `name/part_3`.
STRATA_API std::string part_name(std::string_view name, int64_t part);

}  // namespace strata::ps
