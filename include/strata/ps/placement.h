#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"

namespace strata::ps {

/// The places where a variable may be cut when it is spread over servers.
enum class Split {
  kAnywhere,  ///< between any two elements: a variable that is pulled and pushed whole
  /// between rows of axis 0: a variable that is pulled and pushed by rows, such as an embedding
  kRows,
  kNever,  ///< nowhere: its update rule needs the whole variable (Lamb, Adafactor)
};

/// The properties of a variable that its placement depends on. A value.
struct VariableSpec {
  std::string name;
  std::vector<int64_t> shape = {};  ///< empty: a scalar; -1: an unknown size
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::string device = {};  ///< the requested device, such as `/job:ps/task:1`; empty: none
  Split split = Split::kAnywhere;
};

/// @throws Error  kInvalidArgument, both: the shape has an unknown size.
STRATA_API int64_t num_elements(const VariableSpec& variable);
STRATA_API int64_t num_bytes(const VariableSpec& variable);

/// Chooses a server, from 0, for each variable that it is called with. Its answer depends on
/// earlier calls, so call it in the order of creation; copies are independent.
/// Source: `ps_strategy` of tf.compat.v1.train.replica_device_setter.
using PlacementStrategy = std::function<int(const VariableSpec& variable)>;

/// Returns the weight of a variable, in any unit.
using LoadFunction = std::function<double(const VariableSpec& variable)>;

/// Returns bytes. @throws Error  kInvalidArgument: the shape has an unknown size.
STRATA_API double byte_size_load(const VariableSpec& variable);
/// Returns elements, as tf_cnn_benchmarks counts. @throws as `byte_size_load`.
STRATA_API double element_count_load(const VariableSpec& variable);

/// Chooses one server after the other, whatever the sizes: a large variable makes its server the
/// slowest.
/// @throws Error  kInvalidArgument: `num_servers` is not positive.
STRATA_API PlacementStrategy round_robin(int num_servers);

/// `GreedyLoadBalancingStrategy` by bytes.
STRATA_API PlacementStrategy greedy(int num_servers);

/// Chooses the server with the least load so far, the first of several. A variable stays whole, so
/// the largest one bounds the gain from more servers.
/// Source: tf.contrib.training.GreedyLoadBalancingStrategy of TensorFlow 1.
class STRATA_API GreedyLoadBalancingStrategy {
 public:
  /// @throws Error  kInvalidArgument: `num_servers` is not positive.
  explicit GreedyLoadBalancingStrategy(int num_servers, LoadFunction load = byte_size_load);

  int operator()(const VariableSpec& variable);

  const std::vector<double>& loads() const { return loads_; }  ///< by server

 private:
  LoadFunction load_;
  std::vector<double> loads_;
};

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

/// Elements `begin` to `end` (excluded) of a variable, row-major, and the server that holds them.
struct Piece {
  size_t variable;  ///< index into the placed variables
  int64_t begin;
  int64_t end;
  int server;

  int64_t size() const { return end - begin; }
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The assignment of variables to servers.
struct STRATA_API Placement {
  std::vector<Piece> pieces;  ///< ascending by variable, then begin; each element once; none empty
  std::vector<int64_t> server_bytes;  ///< by server

  /// The ratio of the fullest server's bytes to the mean: 1 is the best; 1 without any bytes.
  double imbalance() const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct PlacementOptions {
  /// Makes the rule that chooses a server for each variable, or for each part that `partitioner`
  /// makes: `round_robin`, `greedy`, or a user-defined function. Null without a partitioner:
  /// automatic. Null with one: `round_robin`, as TensorFlow's ParameterServerStrategy does.
  std::function<PlacementStrategy(int num_servers)> strategy = nullptr;
  /// Cuts along axis 0; not called for scalars, single rows and `Split::kNever`.
  Partitioner partitioner = nullptr;
};

/// Assigns every element of `variables` to a server.
///
/// Automatic placement keeps all servers equally full, whatever the sizes. Variables that may be
/// cut anywhere are treated, by dtype and in the order given, as one range of bytes, of which each
/// server gets an equal part; a cut is at a multiple of 64 bytes of its variable. Each variable
/// that is cut between rows is spread over all servers by itself, so that each server gets its part
/// of the traffic of every table. Whole variables are placed first, in decreasing size, each on the
/// server with the least bytes; the others then even out the differences.
///
/// A `device` with a task (`/job:ps/task:1`) puts the whole variable on that server.
///
/// A pure function: equal arguments give equal placements, on every machine.
/// @throws Error  kInvalidArgument: no servers; an unknown shape; a device of another job than
///   "ps" or a task that does not exist; an answer of partitioner or strategy that is out of range.
STRATA_API Placement place(std::span<const VariableSpec> variables, int num_servers,
                           const PlacementOptions& options = {});

}  // namespace strata::ps
