#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/ps/table.h"

namespace strata::ps {

class ServerCalls;

/// Rows that were pulled for some ids: each row once, however often it was requested.
struct PulledRows {
  at::Tensor ids;     ///< `[n]` int64: the rows, in the order of servers.
  at::Tensor values;  ///< `[n, width]`.
  /// Has the shape of the requested ids, int64: the place of each in `values`.
  at::Tensor inverse;
  std::vector<int64_t> begins = {};  ///< The first row of each server; the last is n.

  /// Returns `[*asked, width]`: a row for each requested id. Copied.
  at::Tensor gather() const;
};

/// The worker's side of a table of rows: an embedding that may be larger than any one machine.
///
/// @throws of all calls: Error kUnavailable: a server is lost, and its backup, if the table has
///   one. kDataLoss: server and backup have lost each other, and both have changed the table;
///   restart from a checkpoint. kDeadlineExceeded: the client's timeout.
/// Threads: any; calls run one at a time. Source: tf.nn.embedding_lookup of a sharded variable.
class STRATA_API RowTable {
 public:
  /// Called by Client::create_rows.
  RowTable(TableSpec spec, std::shared_ptr<ServerCalls> calls);

  const TableSpec& spec() const { return spec_; }

  /// Fetches the rows `ids`, of any shape, int64 on the CPU, in any order, with repeats.
  /// @throws Error  kOutOfRange: an id that is no row; names it.
  PulledRows pull(const at::Tensor& ids);

  /// Updates these rows. @param gradients  `[n, width]`, as `rows.values`.
  /// @throws Error  kInvalidArgument: another shape; infinities or NaN (FlatTable::push).
  PushResult push(const PulledRows& rows, const at::Tensor& gradients, const PushOptions& options);

  /// Returns the whole table, or a slot of the rule, `[rows, width]`, for saving.
  at::Tensor read();
  at::Tensor read_slot(int slot);
  void write(const at::Tensor& values, int64_t version);
  void write_slot(int slot, const at::Tensor& values);

  int64_t version() const;
  std::vector<TableCounters> counters();

 private:
  at::Tensor read_all(int64_t slot);
  void write_all(const at::Tensor& values, int64_t slot, int64_t version);
  int64_t rows_of(int server) const;

  const TableSpec spec_;
  const std::shared_ptr<ServerCalls> calls_;
  std::vector<int64_t> versions_;  // by server
  std::vector<int64_t> steps_;     // by server: the step of the last pulled values
  uint64_t pushes_ = 0;            // and fills
};

}  // namespace strata::ps
