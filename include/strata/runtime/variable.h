#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/runtime/replica_context.h"

namespace strata {

/// The time at which the replicas' copies of a variable are aggregated. Source:
/// tf.VariableSynchronization.
enum class VariableSynchronization {
  kAuto,     ///< Same as kOnWrite.
  kNone,     ///< An error under a strategy, as in TensorFlow.
  kOnWrite,  ///< Every write by replicas is aggregated first, so all copies stay equal.
  kOnRead,   ///< Replicas write and read their own copy; a read outside `run` aggregates.
};

/// The aggregation. Source: tf.VariableAggregation.
enum class VariableAggregation {
  kNone,  ///< kOnWrite: replicas write their own copy, and may drift apart.
  kSum,
  kMean,
  kOnlyFirstReplica,
};

struct VariableOptions {
  std::string name = "Variable";
  bool trainable = true;  ///< Gradients are computed. kOnRead variables never have any.
  VariableSynchronization synchronization = VariableSynchronization::kAuto;
  VariableAggregation aggregation = VariableAggregation::kNone;
};

namespace detail {
class HalfCopy;
class VariableState;
}  // namespace detail

/// A handle of one tensor per replica of this process. Inside `run` it is the calling replica's
/// tensor, outside the cross-replica value; code that uses it does not depend on the number of
/// replicas. Copies of a handle are the same variable.
///
/// It belongs to the strategy in whose scope it was made (outside every scope: to the default
/// strategy; such a plain variable is one tensor, which replicas of any strategy share).
///
/// Threads: reads from any; writes as the aggregation requires. Reads cost nanoseconds.
/// Source: tf.Variable under tf.distribute; numbers in docs/tf_map.md.
class STRATA_API Variable {
 public:
  /// Every replica starts from `initial_value`; in a job of several processes from the first's.
  /// @param initial_value  `[*shape]`; copied.
  /// @throws Error  kFailedPrecondition: made by a replica function. kInvalidArgument:
  ///     synchronization kNone, or a trainable variable of an integer dtype.
  explicit Variable(const at::Tensor& initial_value, VariableOptions options = {});

  /// Returns the current replica's tensor, or the cross-replica value. kOnWrite: a replica's tensor
  /// itself (do not write to it); kOnRead: a new tensor with the sum, mean or first of all
  /// replicas. If there are several processes, all of them read a kOnRead variable together.
  /// @throws Error  kInvalidArgument: cross-replica read of a kOnRead variable without aggregation.
  ///                kFailedPrecondition: read by a replica of another strategy.
  at::Tensor value() const;
  /// The same in another dtype. A trainable float variable on the CPU has a copy in bfloat16, which
  /// is rounded again only where the variable has changed (optimizers write both), so that reading
  /// it costs no cast a step; gradients go to the variable itself.
  at::Tensor value_as(at::ScalarType dtype) const;
  operator at::Tensor() const { return value(); }  // NOLINT: a variable is used like a tensor

  /// Returns the tensor of this process's replica with local number `local`, in any context.
  const at::Tensor& on_replica(int local) const;

  /// Writes. Outside `run`: every copy gets `value` once. In a replica: by the aggregation.
  /// @param value  Broadcastable to the variable's shape.
  /// @throws Error  kFailedPrecondition: cross-replica add to a kOnRead sum.
  void assign(const at::Tensor& value);
  void assign_add(const at::Tensor& value);
  void assign_sub(const at::Tensor& value);
  /// A plain number is the same on each replica, so a replica may not sum it (TensorFlow's rule).
  void assign(double value);
  void assign_add(double value);
  void assign_sub(double value);

  /// Adds updates[i] to variable[indices[i]], row by row; equal indices add up.
  /// @param indices  `[n]` int64. @param updates  `[n, *shape[1:]]`.
  /// @throws Error  kUnimplemented: kOnRead variables.
  void scatter_add(const at::Tensor& indices, const at::Tensor& updates);

  const std::string& name() const;
  bool trainable() const;
  VariableSynchronization synchronization() const;
  VariableAggregation aggregation() const;
  at::IntArrayRef sizes() const;
  at::ScalarType dtype() const;
  int64_t numel() const;

  ReplicaGroup& group() const;

  /// True for two handles of one variable.
  bool is_same(const Variable& other) const { return state_ == other.state_; }

  explicit Variable(std::shared_ptr<detail::VariableState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::VariableState>& state() const { return state_; }

 private:
  std::shared_ptr<detail::VariableState> state_;
};

namespace detail {

/// The state behind the handles of a variable.
class STRATA_API VariableState {
 public:
  /// @param replicas  One tensor per replica of this process, on its device.
  VariableState(std::shared_ptr<ReplicaGroup> group, VariableOptions options,
                std::vector<at::Tensor> replicas);
  ~VariableState();
  VariableState(const VariableState&) = delete;
  VariableState& operator=(const VariableState&) = delete;

  const std::shared_ptr<ReplicaGroup>& group() const { return group_; }
  const VariableOptions& options() const { return options_; }
  const std::vector<at::Tensor>& replicas() const { return replicas_; }
  bool on_read() const { return options_.synchronization == VariableSynchronization::kOnRead; }

  /// Binds the variable's storage: replica r's tensor becomes a view of `homes[r]` (a tensor of
  /// equal shape and strides), with its values; the tensor objects stay. `keep` lives as long as
  /// the storage.
  void bind_storage(const std::vector<at::Tensor>& homes, bool shared, std::shared_ptr<void> keep);
  bool has_bound_storage() const { return home_ != nullptr; }
  /// True if an optimizer keeps one value for all replicas, in one storage or in equal copies.
  bool is_replicated() const;
  /// True if all replicas' tensors are one storage.
  bool shares_storage() const { return shares_storage_; }
  /// The central copy outside `run`: the one on the parameter device, which the replicas' tensors
  /// mirror, or else the first replica's.
  const at::Tensor& central() const { return central_.defined() ? central_ : replicas_[0]; }
  bool has_mirrors() const { return central_.defined(); }

  /// Makes `tensor` replica `local`'s: it gets the replica's storage.
  void move_to(int local, const at::Tensor& tensor);
  /// The values in bfloat16 beside those of replica `local`, rounded again if these have changed.
  at::Tensor half_copy(int local) const;
  /// What keeps them.
  HalfCopy& half_copies() const { return *half_copies_; }

  /// Follows the group's new number of replicas in this process: removes copies, or adds ones with
  /// the first's value.
  void reshape();

  /// Records a write by strata itself (to `central()`, if there are mirrors, which then follow):
  /// makes tensors that autograd saved before stale, and the new version the expected one.
  void bump_version();
  /// If all replicas have one value: copies an in-place change of one replica's tensor, made
  /// outside `run`, to all others.
  void broadcast_external_write();
  /// Records the current versions as expected; at the start of a run, for one replica.
  void record_version(int replica);
  /// @throws Error  kFailedPrecondition: the tensor was changed in place by other code.
  void check_version(int replica) const;

 private:
  std::shared_ptr<ReplicaGroup> group_;
  VariableOptions options_;
  std::vector<at::Tensor> replicas_;
  at::Tensor central_;  // undefined without mirrors
  std::vector<uint32_t> expected_versions_;
  std::shared_ptr<void> home_;
  std::unique_ptr<HalfCopy> half_copies_;
  bool shares_storage_ = false;
};

}  // namespace detail
}  // namespace strata
