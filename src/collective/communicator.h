#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "strata/collective/algorithms.h"
#include "strata/collective/reduce_op.h"
#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata::collective {

/// One call of a communicator.
struct CallOptions {
  /// Calls are matched by id, not by the order in which ranks make them; calls of one id are
  /// matched in order. A bucket's number, for example.
  uint32_t id = 0;
  /// Names the call in messages: "gradients of dense/kernel". Ranks must agree on it.
  std::string name = {};
  /// The limit, from now to the end; default: the communicator's.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::stop_token stop = {};
};

struct CollectiveCall;

/// Collectives between processes ("ranks"), each of which holds some of the replicas. Every rank
/// makes the same calls of one id in the same order.
///
/// Sums follow the fixed tree over replica ids, so the bits are those of `reduce_in_order` over all
/// replicas in one process (unless its options allow any order). Tensors are f32, f64, f16, bf16
/// (added in float, rounded once, at the end) or integers of 8 to 64 bits; calls that only move
/// data take any dtype. Contiguous tensors on the CPU are read and written in place; others are
/// copied.
///
/// When a call fails, the communicator has failed on every rank, with the same reason; afterwards
/// every call throws kFailedPrecondition with it. Build a new one; strategies do so by themselves
/// before their next run.
///
/// @throws of every call: kInvalidArgument before anything is sent; kFailedPrecondition: ranks make
///   different calls of one id (both are described), or an earlier call failed; kUnavailable: a
///   peer was lost, and is named; kDeadlineExceeded: names the absent ranks; kCancelled: `stop`.
/// Threads: any; calls of different ids may run at once.
class STRATA_API Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int num_ranks() const { return placement_.num_ranks(); }
  const Placement& placement() const { return placement_; }
  /// The replicas of this rank, ascending.
  const std::vector<int>& replicas() const { return replicas_; }

  /// Reduces the values of all replicas of all ranks.
  /// @param values  One for each replica of this rank, ascending ids, equal shapes and dtypes
  ///   everywhere. Undefined: absent, left out of the sum (a mean still divides by all replicas);
  ///   all absent everywhere: -0.
  /// @param result  Has the same shape; may be values[0] itself.
  void all_reduce(const std::vector<at::Tensor>& values, at::Tensor& result, ReduceOp op,
                  const CallOptions& options = {});
  /// Reduces the values of ranks with one replica each, in place.
  void all_reduce_(at::Tensor& tensor, ReduceOp op, const CallOptions& options = {}) {
    all_reduce({tensor}, tensor, op, options);
  }

  /// Returns part `rank` of n equal parts of the flat reduction.
  /// @param values  As for all_reduce, with n * `part.numel()` elements.
  void reduce_scatter(const std::vector<at::Tensor>& values, at::Tensor& part, ReduceOp op,
                      const CallOptions& options = {});

  /// @param part  This rank's part, of equal size on all ranks.
  /// @param all  The parts of all ranks in their order, n * `part.numel()` elements. `part` may be
  ///   the part of it that it is copied to.
  void all_gather(const at::Tensor& part, at::Tensor& all, const CallOptions& options = {});

  /// Gathers the bytes of each rank, of any lengths, by rank.
  /// Cost: two all_gathers, the second of the longest length.
  std::vector<std::string> all_gather_bytes(std::string_view local,
                                            const CallOptions& options = {});

  /// Overwrites `tensor` with the root's.
  void broadcast_(at::Tensor& tensor, int root, const CallOptions& options = {});

  /// Returns when every rank has called it.
  void barrier(const CallOptions& options = {});

  /// Allocates memory that this communicator reads and writes in place, without a copy on the way
  /// to other ranks. Every rank makes the same calls in order.
  /// @return `[elements]`, contiguous, on the CPU, zeros; it may outlive the communicator.
  at::Tensor buffer(int64_t elements, at::ScalarType dtype);

  /// True if all ranks are processes of one host that map each other's memory.
  virtual bool shares_memory() const { return false; }
  /// Allocates one `buffer` for each rank, visible to all: each writes into its own, or as they
  /// agree, and sees what others wrote once both have been in a later call.
  /// @throws Error kFailedPrecondition: not `shares_memory()`.
  std::vector<at::Tensor> buffers(int64_t elements, at::ScalarType dtype);
  /// Allocates one buffer that all ranks share. Otherwise as `buffers`.
  at::Tensor common_buffer(int64_t elements, at::ScalarType dtype);

  /// Ends every pending and later call on all ranks with `reason`: this rank cannot continue.
  void fail(const Status& reason) {
    failed_ = true;
    do_fail(reason);
  }

  /// True if a call of this rank has failed, or `fail` was called. Costs nothing, and asks no other
  /// rank.
  bool has_failed() const { return failed_; }

  /// Ok while calls can be made, as far as this rank knows. Cheap; does not wait.
  Status status() { return do_status(); }

  /// Returns one line for logs: the back end and the ranks.
  virtual std::string describe() const = 0;

 protected:
  /// @throws Error kInvalidArgument: not a placement, or a rank outside it.
  Communicator(int rank, Placement placement);

 private:
  /// Runs a call, whose arguments are checked, on tensors as memory.
  virtual void do_call(const CollectiveCall& call, const CallOptions& options) = 0;
  virtual void do_fail(const Status& reason) = 0;
  virtual Status do_status() = 0;
  /// By default plain memory.
  virtual at::Tensor do_buffer(int64_t elements, at::ScalarType dtype);
  // Called only for communicators that share memory.
  virtual std::vector<at::Tensor> do_buffers(int64_t elements, at::ScalarType dtype);
  virtual at::Tensor do_common_buffer(int64_t elements, at::ScalarType dtype);

  template <typename Call>
  void note_failure_of(Call&& call);
  void run_reduction(const CollectiveCall& what, const std::vector<at::Tensor>& values,
                     at::Tensor& result, const CallOptions& options);

  int rank_;
  std::atomic<bool> failed_{false};
  Placement placement_;
  std::vector<int> replicas_;
};

}  // namespace strata::collective
