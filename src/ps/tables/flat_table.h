#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ps/tables/buffer_pool.h"
#include "ps/tables/server_calls.h"
#include "strata/ps/table.h"

namespace strata::ps {

/// The worker's side of a flat table: the parameters of a model, say, one after the other. Values
/// and gradients go straight from and to the tensors that are given, `[elements]`, contiguous, on
/// the CPU and of the table's dtype; kInvalidArgument otherwise.
///
/// All calls @throws Error  kUnavailable: a server is lost, and its backup, where the table has
/// one. kDataLoss: server and backup have lost each other, and both have changed the table; begin
/// again from a checkpoint. kDeadlineExceeded: the client's timeout. Threads: any; calls take
/// turns.
class FlatTable {
 public:
  /// By Client::create_flat.
  FlatTable(TableSpec spec, std::shared_ptr<ServerCalls> calls);

  const TableSpec& spec() const { return spec_; }
  int64_t elements() const { return spec_.elements(); }

  /// Brings the values. kBounded: waits until this worker may begin another step.
  void pull(const at::Tensor& values);

  /// Updates the table: asynchronously; or, in synchronous training, as this worker's part of the
  /// step whose values it has pulled last, and returns when the step has been made.
  /// @throws Error  kInvalidArgument: infinities or NaN; then no server has applied anything of its
  ///   part, and each has said whether its part was good.
  PushResult push(const at::Tensor& gradients, const PushOptions& options);

  /// Both in one go: the values are those behind this push.
  PushResult push_pull(const at::Tensor& gradients, const at::Tensor& values,
                       const PushOptions& options);

  /// push_pull in two parts: between them the caller computes, both tensors are in use, and no other
  /// push or pull of this table is made. `finish_push_pull` returns when the values are those behind
  /// this push.
  /// @throws Error  Of the servers' answers, from `finish_push_pull`.
  void begin_push_pull(const at::Tensor& gradients, const at::Tensor& values,
                       const PushOptions& options);
  PushResult finish_push_pull();

  /// Whether the servers have read the last push on this worker's core, so that the next gradients
  /// are best written to its caches. Else to memory, past them.
  bool reads_on_this_core() const { return reads_on_this_core_; }

  /// A slot of the update rule, for saving. `[elements]`. @param slot  From 0.
  at::Tensor read_slot(int slot);
  /// The values, without waiting for other workers.
  void read(const at::Tensor& values);
  /// For restoring. @param version  How many updates the table has had.
  void write(const at::Tensor& values, int64_t version);
  void write_slot(int slot, const at::Tensor& values);

  /// How many updates the table has had, as this worker knows it: of the server that has had
  /// fewest.
  int64_t version() const;

  /// What happened so far, of each server.
  std::vector<TableCounters> counters();

 private:
  /// A push's requests, and what they refer to.
  struct Push {
    std::vector<BufferPool::Buffer> encoded;
    std::vector<ServerCalls::Exchange> exchanges;
  };
  Push make_push(const at::Tensor& gradients, const at::Tensor* values, const PushOptions& options);
  PushResult push(const at::Tensor& gradients, const at::Tensor* values,
                  const PushOptions& options);
  PushResult take_push_replies(const std::vector<Reply>& replies);
  std::string push_name() const;
  void read_into(const at::Tensor& values, int64_t slot, bool waits);
  void write_from(const at::Tensor& values, int64_t slot, int64_t version);
  void check(const at::Tensor& tensor, const char* call) const;

  const TableSpec spec_;
  const std::shared_ptr<ServerCalls> calls_;
  std::vector<std::vector<TablePart>> parts_;  // by server
  std::vector<int64_t> versions_;              // by server
  std::vector<int64_t> steps_;                 // by server: of the values that came last
  uint64_t pushes_ = 0;                        // and fills
  bool reads_on_this_core_ = false;
  // Of a push whose answer has not been taken:
  std::vector<BufferPool::Buffer> encoded_;
  uint64_t round_ = 0;
};

}  // namespace strata::ps
