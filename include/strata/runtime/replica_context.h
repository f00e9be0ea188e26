#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string_view>
#include <vector>

#include "strata/collective/reduce_op.h"
#include "strata/core/export.h"

namespace strata {

struct LogicalDevice;
class ReplicaGroup;

/// The interface of a function in `Strategy::run` to its replica.
///
/// Every replica must make the same calls of `all_reduce`, `all_gather` and `merge_call` in the
/// same order; otherwise all of them end with one error. Source: tf.distribute.ReplicaContext.
class STRATA_API ReplicaContext {
 public:
  ReplicaContext(ReplicaGroup& group, int local);

  /// This replica's number among the replicas of all processes.
  int replica_id_in_sync_group() const { return replica_id_; }
  int num_replicas_in_sync() const;
  /// This replica's number among those of this process, from 0.
  int local_replica() const { return local_; }
  const LogicalDevice& device() const;
  /// The strategy of these replicas. Defined in strata/strategies/merge_call.h, which strategy.h
  /// includes: this module does not know the class.
  /// @throws Error  kFailedPrecondition: it no longer exists.
  template <typename = void>
  auto& strategy() const;
  ReplicaGroup& group() const { return group_; }

  /// Reduces `value` over the replicas in the fixed tree order (on GPUs whose gradients go from card to
  /// card: from card to card, in their order, and the host does not wait; docs/gpu.md). Differentiable:
  /// the gradient is `all_reduce` of the gradients with the same op (kSum, kMean only).
  /// @param value  `[*shape]`, equal shape, dtype and layout on every replica; not bool. A sparse
  ///   one (COO) is summed as by Strategy::reduce, and has no gradient.
  /// @return `[*shape]`, this replica's own copy of the result.
  /// @throws Error  kFailedPrecondition: replicas disagree. kInvalidArgument: bool, another layout;
  /// gradient of min, max. kUnimplemented: sparse, and requires gradients.
  at::Tensor all_reduce(ReduceOp op, const at::Tensor& value) const;
  std::vector<at::Tensor> all_reduce(ReduceOp op, const std::vector<at::Tensor>& values) const;

  /// Concatenates `value` of all replicas, in replica order. Differentiable.
  ///
  /// @param value  Equal on every replica except for the size of `axis`, which may be 0.
  /// @param axis   0 <= axis < rank.
  /// @throws Error  kInvalidArgument: axis out of range, a scalar, or shapes that differ elsewhere.
  at::Tensor all_gather(const at::Tensor& value, int64_t axis) const;

  /// Waits for every replica of this process and runs `fn(strategy, PerReplica<Args>...)` once in
  /// each process, with its replicas' values, in cross-replica context. All replicas get its
  /// result. `strategy.reduce` in it is over all processes. Defined where `strategy()` is.
  template <typename Fn, typename... Args>
  auto merge_call(Fn&& fn, const Args&... args) const;

  /// The barrier under `merge_call`: the last of this process's replicas to arrive runs `together`
  /// with all `payload`s, by local number, while the others wait, in cross-replica context.
  void synchronize(std::string_view name, void* payload,
                   const std::function<void(const std::vector<void*>&)>& together,
                   uint64_t key = 0) const;

 private:
  ReplicaGroup& group_;
  int local_;
  int replica_id_;
};

/// This thread's replica context; null in cross-replica context (in a strategy's scope outside
/// `run`, or in a `merge_call`). Outside every strategy it is the default strategy's only replica.
/// Source: tf.distribute.get_replica_context.
STRATA_API ReplicaContext* get_replica_context();

/// Source: tf.distribute.in_cross_replica_context.
STRATA_API bool in_cross_replica_context();

/// Called when a replica of this process enters and leaves a `run`, on the replica's thread.
class STRATA_API RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before_run() {}  ///< On the caller's thread, before any replica enters.
  virtual void on_run_begin(int local) = 0;
  virtual void on_run_end(int local) = 0;  ///< Not called where the function threw.
  virtual void on_resize() {}              ///< The group has got other replicas; outside `run`.
  /// The same replicas have got another communicator: state of the one before is invalid.
  virtual void reconnected() {}
};

}  // namespace strata
