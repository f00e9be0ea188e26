#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/ps/push.h"
#include "strata/ps/table.h"

namespace strata::ps {

class ServerCalls;

/// Rows that were pulled for some ids: each row once, however often it was asked for.
struct PulledRows {
  at::Tensor ids;      ///< `[n]` int64: which rows; one server's behind the other's.
  at::Tensor values;   ///< `[n, width]`.
  at::Tensor inverse;  ///< Of the shape of what was asked for, int64: where in `values` each is.
  std::vector<int64_t> begins = {};  ///< Where each server's rows begin; the last is n.

  /// `[*asked, width]`: a row for each id that was asked for. Copied.
  at::Tensor gather() const;
};

/// The worker's side of a table of rows: an embedding that may be larger than any one machine.
///
/// All calls @throws Error  kUnavailable: a server is lost, and its backup, where the table has
/// one. kDataLoss: server and backup have lost each other, and both have changed the table; begin
/// again from a checkpoint. kDeadlineExceeded: the client's timeout. Threads: any; calls take
/// turns. Source: tf.nn.embedding_lookup of a sharded variable.
class STRATA_API RowTable {
 public:
  /// By Client::create_rows.
  RowTable(TableSpec spec, std::shared_ptr<ServerCalls> calls);

  const TableSpec& spec() const { return spec_; }

  /// Brings the rows `ids`, of any shape, int64 on the CPU, in any order, repeats among them.
  /// @throws Error  kOutOfRange: an id that is no row; names it.
  PulledRows pull(const at::Tensor& ids);

  /// Updates these rows. @param gradients  `[n, width]`, as `rows.values`.
  /// @throws Error  kInvalidArgument: another shape; infinities or NaN (FlatTable::push).
  PushResult push(const PulledRows& rows, const at::Tensor& gradients, const PushOptions& options);

  /// The whole table, or a slot of the rule, `[rows, width]`, for saving.
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
  std::vector<int64_t> steps_;     // by server: of the values that came last
  uint64_t pushes_ = 0;            // and fills
};

}  // namespace strata::ps
