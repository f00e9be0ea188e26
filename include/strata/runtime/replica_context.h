#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "strata/collective/reduce_op.h"
#include "strata/core/export.h"
#include "strata/runtime/replica_group.h"
#include "strata/tensor/thread_setup.h"

namespace strata {

/// The interface of a function in `Strategy::run` to its replica.
///
/// Every replica must make the same calls of `all_reduce`, `all_gather` and `merge_call` in the
/// same order; otherwise all of them end with one error. Source: tf.distribute.ReplicaContext.
class STRATA_API ReplicaContext {
 public:
  ReplicaContext(ReplicaGroup& group, int local)
      : group_(group), local_(local), replica_id_(group.replica_id(local)) {}

  /// This replica's number among the replicas of all processes.
  int replica_id_in_sync_group() const { return replica_id_; }
  int num_replicas_in_sync() const { return group_.num_replicas(); }
  /// This replica's number among those of this process, from 0.
  int local_replica() const { return local_; }
  const LogicalDevice& device() const { return group_.device(local_); }
  /// The strategy of these replicas. Defined in strata/strategies/merge_call.h, which strategy.h
  /// includes: this module does not know the class.
  /// @throws Error  kFailedPrecondition: it no longer exists.
  template <typename = void>
  auto& strategy() const;
  ReplicaGroup& group() const { return group_; }

  /// Reduces `value` over the replicas in the fixed tree order. Differentiable: the gradient is
  /// `all_reduce` of the gradients with the same op (kSum, kMean only).
  ///
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

namespace detail {

/// The state of a thread: the group it works for, and the replica (null: all of them).
struct Context {
  ReplicaGroup* group;
  ReplicaContext* replica;
};

STRATA_API const Context& current_context();

/// Sets `context` for this thread during its lifetime.
class STRATA_API ContextGuard {
 public:
  explicit ContextGuard(const Context& context);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  Context previous_;
  std::optional<tensor::ThreadSetupGuard> one_thread_;
};

/// The group of the default strategy: one replica, the CPU, the caller's own thread and random
/// state.
STRATA_API const std::shared_ptr<ReplicaGroup>& default_group();

/// @throws Error  kFailedPrecondition, called by a replica function; names merge_call as the
/// remedy.
STRATA_API void require_cross_replica(std::string_view call);

/// @throws Error  kFailedPrecondition: this thread is in the scope of another strategy than
///   `group`'s; the default one mixes with all.
STRATA_API void require_unmixed(const ReplicaGroup& group, std::string_view call);

}  // namespace detail
}  // namespace strata
