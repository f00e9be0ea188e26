#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/tensor/rule_options.h"

namespace strata::ps {

/// The precision in which gradients are sent.
enum class PushPrecision {
  kFull = 0,      ///< Their own precision.
  kFloat16 = 1,   ///< Half the bytes of float32; values beyond 65504 are infinite, and refused.
  kBFloat16 = 2,  ///< Half the bytes, float32's range, 8 bits of precision.
};

struct PushOptions {
  double learning_rate = 1e-3;
  double scale = 1;  ///< Gradients are multiplied by it.
  /// The number of examples that the gradients are a sum over. They are divided by it, in
  /// synchronous training by the sum over all workers of the step. 0: they are not divided.
  double weight = 0;
  double weight_decay = 0;  ///< values -= values * weight_decay * learning_rate, before the rule.
  double clip_value = 0;    ///< The largest magnitude of each element of the gradient. 0: off.
  PushPrecision precision = PushPrecision::kFull;
};

struct PushResult {
  int64_t version = 0;  ///< The number of the table's updates.
  bool applied = true;  ///< False: in synchronous training the step was over; the push is dropped.
};

/// Counters of one server's part of a table.
struct TableCounters {
  int64_t version = 0;   ///< Updates.
  int64_t pushes = 0;    ///< Applied pushes.
  int64_t dropped = 0;   ///< Synchronous: pushes that arrived after their step.
  int64_t rejected = 0;  ///< Refused requests: with values that are not finite, for example.
  /// Pushes that arrived twice, because the worker did not receive the reply.
  int64_t repeated = 0;
  /// The most steps that a worker was ahead of the slowest when it began one.
  int64_t most_lead = 0;
  int64_t workers = 0;  ///< Connected workers.
};

/// The synchronization of the workers that train one table.
enum class Consistency {
  kAsynchronous = 0,  ///< No synchronization: every push is applied on arrival.
  kBounded = 1,  ///< No worker begins a step that is more than `staleness` ahead of the slowest's.
  kSynchronous = 2,  ///< A step is the sum of the first `workers - backups` pushes; later ones are
                     ///< dropped.
};

struct ConsistencyOptions {
  Consistency kind = Consistency::kAsynchronous;
  /// kBounded: with 0, no worker begins a step before all have ended the last one.
  /// Source: stale synchronous parallel (Ho et al., 2013).
  int64_t staleness = 0;
  /// kSynchronous: the number of workers that push in each step, and of pushes that a step may
  /// lack.
  /// Source: backup workers (Chen et al., 2016), tf.train.SyncReplicasOptimizer.
  int workers = 1;
  int backups = 0;

  friend bool operator==(const ConsistencyOptions&, const ConsistencyOptions&) = default;
};

/// Elements [begin, end) of a flat table, and their server.
struct TablePart {
  int64_t begin = 0;
  int64_t end = 0;
  int server = 0;

  friend bool operator==(const TablePart&, const TablePart&) = default;
};

/// The initial values of a table's rows. Row r has the same values with any number of servers: they
/// are drawn from (seed, r).
struct RowInitializer {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  double a = 0;  ///< The constant; the lower end; the mean.
  double b = 0;  ///< -; the upper end; the standard deviation.
  uint64_t seed = 0;
};

/// A table that parameter servers hold and update. A flat one has the parameters of a model one
/// after the other, and every worker pulls and pushes all of it; of a table of rows (an embedding)
/// a worker pulls and pushes the rows that it needs.
struct TableSpec {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;  ///< float32 or float64
  tensor::RuleOptions rule = tensor::SGDRule{};
  ConsistencyOptions consistency = {};
  /// Server i's part has a backup on server i + 1 (the last one's on the first), which takes over
  /// when server i is lost. It needs at least two servers. Cost: each push is sent and applied a
  /// second time, and acknowledged when the backup has it; twice the memory.
  bool backup = false;

  /// Flat: ascending, from 0, without gaps. Empty: a table of rows.
  std::vector<TablePart> parts = {};
  /// Flat: elements that are excluded from weight decay, as ranges; `server` is ignored.
  std::vector<TablePart> no_weight_decay = {};

  /// Rows: row r is on server r modulo the number of servers, since popular rows often have near
  /// ids. A rule's slots change with the rows that are pushed, and only with these.
  int64_t rows = 0;
  int64_t width = 0;
  RowInitializer initializer = {};

  bool is_flat() const { return !parts.empty(); }
  /// The elements of all servers.
  int64_t elements() const { return is_flat() ? parts.back().end : rows * width; }
};

/// Divides `elements` into equal parts, cut at multiples of 64 bytes: no server holds more than 64
/// bytes above the mean.
STRATA_API std::vector<TablePart> cut_evenly(int64_t elements, int64_t element_size, int servers);

/// @param servers  The number of servers.
/// @throws Error  kInvalidArgument: names the table and its fault.
STRATA_API void check_table(const TableSpec& spec, int servers);

/// Encodes a table for the wire, and for comparing the requests of two workers.
STRATA_API Json table_to_json(const TableSpec& spec);
/// @throws Error  kDataLoss, kInvalidArgument.
STRATA_API TableSpec table_from_json(const Json& json);

}  // namespace strata::ps
