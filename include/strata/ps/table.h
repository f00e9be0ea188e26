#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/tensor/update_rule.h"

namespace strata::ps {

/// How the workers that train one table wait for each other.
enum class Consistency {
  kAsynchronous,  ///< Not at all: every push is applied as it comes.
  kBounded,       ///< Nobody begins a step that is more than `staleness` ahead of the slowest's.
  kSynchronous,   ///< A step is the sum of the first `workers - backups` pushes; later ones are
                  ///< dropped.
};

struct ConsistencyOptions {
  Consistency kind = Consistency::kAsynchronous;
  /// kBounded: 0 lets nobody begin a step before all have ended the last one.
  /// Source: stale synchronous parallel (Ho et al., 2013).
  int64_t staleness = 0;
  /// kSynchronous: how many push in each step, and how many of these a step does without.
  /// Source: backup workers (Chen et al., 2016), tf.train.SyncReplicasOptimizer.
  int workers = 1;
  int backups = 0;

  friend bool operator==(const ConsistencyOptions&, const ConsistencyOptions&) = default;
};

/// Elements [begin, end) of a flat table, and who holds them.
struct TablePart {
  int64_t begin = 0;
  int64_t end = 0;
  int server = 0;

  friend bool operator==(const TablePart&, const TablePart&) = default;
};

/// What the rows of a table are at first. Row r has the same values however many servers share the
/// table: they are drawn from (seed, r).
struct RowInitializer {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  double a = 0;  ///< The constant; the lower end; the mean.
  double b = 0;  ///< -; the upper end; the standard deviation.
  uint64_t seed = 0;
};

/// A table that parameter servers hold and update: either flat, the parameters of a model one after
/// the other, of which every worker pulls and pushes all; or rows (an embedding), of which a worker
/// pulls and pushes those that it needs.
struct TableSpec {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;  ///< float32 or float64
  tensor::RuleOptions rule = tensor::SGDRule{};
  ConsistencyOptions consistency = {};
  /// Server i's part has a copy on server i + 1 (the last one's on the first), which takes its
  /// place when it is lost. Two servers at least. Costs: each push travels a second time and is
  /// applied a second time, and is answered when the copy's server has it; twice the memory.
  bool backup = false;

  /// Flat: ascending, from 0, without gaps. Empty: a table of rows.
  std::vector<TablePart> parts = {};
  /// Flat: elements that weight decay leaves alone, as ranges; `server` does not count.
  std::vector<TablePart> no_weight_decay = {};

  /// Rows: row r is server r modulo the number of servers' one, since popular rows often stand
  /// together. A rule's slots change with the rows that are pushed, and only with these.
  int64_t rows = 0;
  int64_t width = 0;
  RowInitializer initializer = {};

  bool is_flat() const { return !parts.empty(); }
  /// Of all servers.
  int64_t elements() const { return is_flat() ? parts.back().end : rows * width; }
};

/// Equal parts of `elements`, cut at multiples of 64 bytes: no server holds more than 64 bytes
/// above the mean.
STRATA_API std::vector<TablePart> cut_evenly(int64_t elements, int64_t element_size, int servers);

/// @param servers  How many there are.
/// @throws Error  kInvalidArgument: names the table and what is wrong with it.
STRATA_API void check_table(const TableSpec& spec, int servers);

/// For the wire, and for comparing what two workers ask for.
STRATA_API Json table_to_json(const TableSpec& spec);
/// @throws Error  kDataLoss, kInvalidArgument.
STRATA_API TableSpec table_from_json(const Json& json);

}  // namespace strata::ps
