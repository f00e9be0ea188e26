#include "strata/ps/placement.h"

#include <algorithm>

#include "strata/core/error.h"

namespace strata::ps {
namespace {

void check_positive(int64_t value, std::string_view partitioner, std::string_view option) {
  STRATA_CHECK(value > 0, kInvalidArgument, "[ps] ", partitioner, ": got ", option, " = ", value,
               "; expected a positive number");
}

// Scalars, and variables without rows or elements, are left whole.
bool has_rows(const VariableSpec& variable) {
  return !variable.shape.empty() && num_elements(variable) > 0;
}

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

FixedShardsPartitioner::FixedShardsPartitioner(int64_t num_shards) : num_shards_(num_shards) {
  check_positive(num_shards, "FixedShardsPartitioner", "num_shards");
}

int64_t FixedShardsPartitioner::operator()(const VariableSpec& variable) const {
  return has_rows(variable) ? std::min(num_shards_, variable.shape.front()) : 1;
}

MinSizePartitioner::MinSizePartitioner(MinSizePartitionerOptions options) : options_(options) {
  check_positive(options.min_shard_bytes, "MinSizePartitioner", "min_shard_bytes");
  check_positive(options.max_shards, "MinSizePartitioner", "max_shards");
}

int64_t MinSizePartitioner::operator()(const VariableSpec& variable) const {
  if (!has_rows(variable)) return 1;
  return std::min({variable.shape.front(), options_.max_shards,
                   ceil_divide(num_bytes(variable), options_.min_shard_bytes)});
}

MaxSizePartitioner::MaxSizePartitioner(MaxSizePartitionerOptions options) : options_(options) {
  check_positive(options.max_shard_bytes, "MaxSizePartitioner", "max_shard_bytes");
  if (options.max_shards) check_positive(*options.max_shards, "MaxSizePartitioner", "max_shards");
}

int64_t MaxSizePartitioner::operator()(const VariableSpec& variable) const {
  if (!has_rows(variable)) return 1;
  const int64_t rows = variable.shape.front();
  const int64_t row_bytes = num_bytes(variable) / rows;
  const int64_t rows_a_part = std::max<int64_t>(1, options_.max_shard_bytes / row_bytes);
  const int64_t parts = ceil_divide(rows, rows_a_part);
  return options_.max_shards ? std::min(parts, *options_.max_shards) : parts;
}

std::vector<int64_t> split_rows(int64_t rows, int64_t parts) {
  check_positive(parts, "split_rows", "parts");
  std::vector<int64_t> offsets(static_cast<size_t>(parts) + 1);
  for (int64_t i = 0; i <= parts; ++i)
    offsets[static_cast<size_t>(i)] = rows / parts * i + std::min(i, rows % parts);
  return offsets;
}

std::string part_name(std::string_view name, int64_t part) { return str_cat(name, "/part_", part); }

}  // namespace strata::ps
