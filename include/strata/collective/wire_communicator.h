#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "strata/collective/planner.h"
#include "strata/collective/reduce_op.h"
#include "strata/core/export.h"
#include "strata/wire/transport.h"

namespace strata::collective {

/// One call of a communicator.
struct CallOptions {
  /// Calls are matched by it, not by the order in which ranks make them; those of one id in order.
  /// A bucket's number, for example.
  uint32_t id = 0;
  /// For messages: "gradients of dense/kernel".
  std::string name = {};
  /// From now to the end; default: the planner's options'.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::stop_token stop = {};
};

struct WireCommunicatorOptions {
  uint32_t channel = 1;  ///< Tags of this channel are the communicator's on all connections.
};

/// The `wire` back end: collectives between processes, each of which holds some replicas. Schedules
/// are the planner's; sums follow the fixed tree over replica ids (Order::kFixed), so the bits are
/// those of `reduce_in_order` over all replicas in one process.
///
/// Tensors: f32, f64, f16, bf16 (added in float, rounded once, at the end), integers of 8 to 64
/// bits; broadcast and all_gather any dtype. On the CPU and contiguous they are read and written
/// where they are; others are copied.
///
/// When a call fails, all connections of the communicator are failed with its error, so that every
/// rank ends with the reason; afterwards every call throws kFailedPrecondition with it. Build a new
/// communicator on new connections.
///
/// @throws of every call: kInvalidArgument before anything is sent; kFailedPrecondition: ranks make
///   different calls of one id (both are described), or an earlier call failed; kUnavailable: a
///   peer is gone, and is named; kDeadlineExceeded: names whom it waited for; kCancelled: `stop`.
/// Threads: any; calls of different ids may run at once.
class STRATA_API WireCommunicator {
 public:
  using Options = WireCommunicatorOptions;

  /// @param peers  By rank: open connections; null at `rank`.
  /// @param transport  Theirs.  @param planner  Equal on all ranks.
  WireCommunicator(int rank, std::vector<std::shared_ptr<wire::Connection>> peers,
                   std::shared_ptr<wire::Transport> transport,
                   std::shared_ptr<const Planner> planner, const Options& options = {});
  ~WireCommunicator();

  int rank() const;
  int num_ranks() const;
  const Planner& planner() const;

  /// Reduces the values of all replicas of all ranks.
  /// @param values  One for each replica of this rank, ascending ids, equal shapes and dtypes
  ///   everywhere. Undefined: absent, left out of the sum (a mean still divides by all replicas);
  ///   all absent everywhere: -0.
  /// @param result  Of the same shape; may be values[0] itself.
  /// Cost: see docs/algorithms.md; 2(n-1)/n * bytes sent per rank where every rank's replicas are
  /// one
  ///   subtree of the tree.
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
  /// its
  ///   place in it.
  void all_gather(const at::Tensor& part, at::Tensor& all, const CallOptions& options = {});

  /// `tensor` becomes the root's.
  void broadcast_(at::Tensor& tensor, int root, const CallOptions& options = {});

  /// Returns when every rank has called it.
  void barrier(const CallOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::collective
