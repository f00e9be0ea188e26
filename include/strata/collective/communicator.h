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

#include "strata/collective/placement.h"
#include "strata/collective/reduce_op.h"
#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata::collective {

/// One call of a communicator.
struct CallOptions {
  /// Calls are matched by it, not by the order in which ranks make them; those of one id in order.
  /// A bucket's number, for example.
  uint32_t id = 0;
  /// For messages: "gradients of dense/kernel". Ranks whose names for a call differ disagree.
  std::string name = {};
  /// From now to the end; default: the communicator's.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::stop_token stop = {};
};

struct CollectiveCall;

/// Collectives between processes ("ranks"), each of which holds some of the replicas. Every rank
/// makes the same calls of one id in the same order.
///
/// Sums follow the fixed tree over replica ids, so the bits are those of `reduce_in_order` over all
/// replicas in one process (unless its options allow any order). Tensors: f32, f64, f16, bf16
/// (added in float, rounded once, at the end), integers of 8 to 64 bits; what only moves, any
/// dtype. On the CPU and contiguous they are read and written where they are; others are copied.
///
/// When a call fails, the communicator has failed on every rank, with the same reason; afterwards
/// every call throws kFailedPrecondition with it. Build a new one; strategies do that by themselves
/// before their next run.
///
/// @throws of every call: kInvalidArgument before anything is sent; kFailedPrecondition: ranks make
///   different calls of one id (both are described), or an earlier call failed; kUnavailable: a
///   peer is gone, and is named; kDeadlineExceeded: names whom it waited for; kCancelled: `stop`.
/// Threads: any; calls of different ids may run at once.
class STRATA_API Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int num_ranks() const { return placement_.num_ranks(); }
  const Placement& placement() const { return placement_; }
  /// Of this rank, ascending.
  const std::vector<int>& replicas() const { return replicas_; }

  /// Reduces the values of all replicas of all ranks.
  /// @param values  One for each replica of this rank, ascending ids, equal shapes and dtypes
  ///   everywhere. Undefined: absent, left out of the sum (a mean still divides by all replicas);
  ///   all absent everywhere: -0.
  /// @param result  Of the same shape; may be values[0] itself.
  void all_reduce(const std::vector<at::Tensor>& values, at::Tensor& result, ReduceOp op,
                  const CallOptions& options = {});
  /// For ranks with one replica.
  void all_reduce_(at::Tensor& tensor, ReduceOp op, const CallOptions& options = {}) {
    all_reduce({tensor}, tensor, op, options);
  }

  /// Part `rank` of n equal parts of the flat reduction.
  /// @param values  As for all_reduce, of n * `part.numel()` elements.
  void reduce_scatter(const std::vector<at::Tensor>& values, at::Tensor& part, ReduceOp op,
                      const CallOptions& options = {});

  /// @param part  This rank's, of equal size on all.
  /// @param all  All ranks' parts in their order, n * `part.numel()` elements. `part` may lie at
  ///   its place in it.
  void all_gather(const at::Tensor& part, at::Tensor& all, const CallOptions& options = {});

  /// What each rank brings, of whatever length, by rank.
  /// Cost: two all_gathers, the second of the longest length.
  std::vector<std::string> all_gather_bytes(std::string_view mine, const CallOptions& options = {});

  /// `tensor` becomes the root's.
  void broadcast_(at::Tensor& tensor, int root, const CallOptions& options = {});

  /// Returns when every rank has called it.
  void barrier(const CallOptions& options = {});

  /// Memory for values and results that this communicator reads and writes where it is, without a
  /// copy on the way to other ranks. Every rank makes the same calls in order.
  /// @return `[elements]`, contiguous, on the CPU, zeros; it may outlive the communicator.
  at::Tensor buffer(int64_t elements, at::ScalarType dtype);

  /// All ranks are processes of one host that see each other's memory.
  virtual bool shares_memory() const { return false; }
  /// As `buffer`, with those of all ranks, by rank: each writes into its own, or as they agree, and
  /// sees what others wrote once both have been in a later call.
  /// @throws Error kFailedPrecondition: not `shares_memory()`.
  std::vector<at::Tensor> buffers(int64_t elements, at::ScalarType dtype);
  /// One piece of memory that is every rank's. Otherwise as `buffers`.
  at::Tensor common_buffer(int64_t elements, at::ScalarType dtype);

  /// Ends every pending and later call on all ranks with `reason`: this rank cannot go on.
  void fail(const Status& reason) {
    failed_ = true;
    do_fail(reason);
  }

  /// A call of this rank has failed, or `fail` was called. Costs nothing, and asks no other rank.
  bool has_failed() const { return failed_; }

  /// Ok while calls can be made, as far as this rank knows. Cheap; does not wait.
  Status status() { return do_status(); }

  /// One line for people: which back end, which ranks.
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
  // Of those that share memory.
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
