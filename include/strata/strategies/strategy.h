#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/collective/reduce_op.h"
#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/per_replica.h"
#include "strata/runtime/replica_context.h"
#include "strata/runtime/replica_options.h"
#include "strata/runtime/variable.h"
#include "strata/strategies/distributed_dataset.h"
#include "strata/strategies/merge_call.h"

namespace strata {

template <typename Fn>
class Function;
struct ReplicaGroupOptions;
class ReplicaGroupOwner;
struct ReplicateOptions;
class StopConsensus;

namespace detail {

/// Returns replica `replica`'s value of an argument of `run`: its own of a PerReplica.
template <typename T>
const T& part_of(const T& value, int) {
  return value;
}
template <typename T>
typename std::vector<T>::const_reference part_of(const PerReplica<T>& values, int replica) {
  return values.get(replica);
}

/// Whether all that T's call computes is in functions: what strata::function makes, and Keras's steps.
template <typename T>
inline constexpr bool kIsFunction = false;
template <typename Fn>
inline constexpr bool kIsFunction<Function<Fn>> = true;

template <typename T>
void check_replicas(const T&, int, const std::string&) {}
template <typename T>
void check_replicas(const PerReplica<T>& values, int replicas, const std::string& strategy) {
  STRATA_CHECK(values.size() == replicas, kInvalidArgument, "[", strategy, "] run: got ",
               values.size(), " values for ", replicas,
               " replicas; pass one per replica (PerReplica)");
}

}  // namespace detail

/// Runs a program written for one device on several. A strategy owns its replicas (devices,
/// threads); the derived classes choose the devices, and how values are sent between them. If the
/// replicas are in several processes, each runs the same program, and calls for all replicas are
/// made together: every process makes the same calls in the same order.
///
/// Calls of one strategy inside the scope of another are kFailedPrecondition, as in TensorFlow.
/// Threads: any outside replica functions; calls run one at a time.
/// Source: tf.distribute.Strategy.
class STRATA_API Strategy {
 public:
  virtual ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  int num_replicas_in_sync() const;
  const std::string& name() const;
  /// True in the chief, the process that writes checkpoints, logs and progress. Always true in a
  /// job of one process.
  bool is_chief() const;
  ReplicaGroup& group() const { return *group_; }
  /// Some lines for logs: replicas, devices, and the operation that reduces over them. A strategy
  /// of several devices logs it when it is made, at level info.
  virtual std::string describe() const;

  /// Calls `body()` in this strategy's scope and returns its result: variables made there are this
  /// strategy's, with one copy for each replica. Nesting the same scope is allowed.
  /// @throws Error  kFailedPrecondition: inside another strategy's scope, or in a replica function.
  template <typename Body>
  decltype(auto) scope(Body&& body) {
    const std::shared_ptr<void> guard = enter_scope();
    return std::forward<Body>(body)();
  }

  /// Makes a module on every replica, with the weights of the first. `factory()` is called once for
  /// each replica and once more (see Replicated), and must make equal structures.
  /// Defined in strata/strategies/replicate.h, which needs torch/nn/module.h.
  /// @return Replicated<M>, where the factory returns M, a holder of M, or std::shared_ptr<M>.
  /// @throws Error  kFailedPrecondition: in a replica function. kInvalidArgument: unequal
  /// structures.
  template <typename Factory>
  auto replicate(Factory&& factory);
  template <typename Factory>
  auto replicate(Factory&& factory, const ReplicateOptions& options);

  /// Calls `fn(arguments...)` once on each replica of this process, at the same time. An argument
  /// that is PerReplica gives each replica its own value; every other is passed to all by
  /// reference.
  /// @return PerReplica of the calls' results; nothing for void.
  /// @throws the exception of the first replica that failed; the others are stopped, and the
  ///         strategy stays usable. Error kFailedPrecondition: in a replica function; replicas that
  ///         made different numbers of collective calls. kCancelled: after Ctrl-C
  ///         (core/interrupt.h).
  template <typename Fn, typename... Arguments>
  auto run(Fn&& fn, const Arguments&... arguments) {
    require_runnable(detail::kIsFunction<std::decay_t<Fn>>);
    (detail::check_replicas(arguments, num_local_replicas(), name()), ...);
    using Result =
        std::decay_t<std::invoke_result_t<Fn&, decltype(detail::part_of(arguments, 0))...>>;
    if constexpr (std::is_void_v<Result>) {
      run_replicas([&](ReplicaContext& context) {
        fn(detail::part_of(arguments, context.local_replica())...);
      });
    } else {
      std::vector<std::optional<Result>> results(static_cast<size_t>(num_local_replicas()));
      run_replicas([&](ReplicaContext& context) {
        const int local = context.local_replica();
        results[static_cast<size_t>(local)].emplace(fn(detail::part_of(arguments, local)...));
      });
      std::vector<Result> values;
      values.reserve(results.size());
      for (std::optional<Result>& result : results) values.push_back(std::move(*result));
      return PerReplica<Result>(std::move(values));
    }
  }

  /// Reduces over the replicas of all processes, and, if `axis` is given, over that dimension of
  /// the values too; the mean then counts elements, so values may differ in size along it, and
  /// empty ones do not count.
  ///
  /// @param value  Without axis: equal shapes; sparse ones (COO) too, whose sum has the entries of
  ///   all in the order of replicas, and stays sparse. An axis may be negative.
  /// @return On the host CPU; the mean of integers is a float; of no elements NaN.
  /// @throws Error  kInvalidArgument: wrong number of values; unequal shapes; an axis out of range.
  at::Tensor reduce(ReduceOp op, const PerReplica<at::Tensor>& value,
                    std::optional<int64_t> axis = std::nullopt) const;
  double reduce(ReduceOp op, const PerReplica<double>& value) const;
  int64_t reduce(ReduceOp op, const PerReplica<int64_t>& value) const;
  /// Reduces a value that is the same everywhere: the mean is the value; with an axis it counts
  /// once for each replica.
  /// @throws Error  kInvalidArgument: SUM without axis under several replicas, which is ambiguous.
  at::Tensor reduce(ReduceOp op, const at::Tensor& value,
                    std::optional<int64_t> axis = std::nullopt) const;
  /// Reduces a variable: MEAN is its value.
  at::Tensor reduce(ReduceOp op, const Variable& variable) const;

  /// Concatenates all replicas' values along `axis` in replica order, on the host CPU; sparse
  /// values become dense.
  /// @throws Error  kInvalidArgument: scalars, or shapes that differ elsewhere.
  at::Tensor gather(const PerReplica<at::Tensor>& value, int64_t axis) const;

  /// Returns the values of the replicas of all processes by replica id, on the host CPU, in every
  /// process. Dtypes and shapes may differ; sparse values become dense.
  std::vector<at::Tensor> all_results(const PerReplica<at::Tensor>& value) const;

  /// Compares the copies of `variables` on the replicas of all processes, by their SHA-256: for
  /// example once in a thousand steps, to find weights that have diverged, or a machine that
  /// computes wrongly. Variables of which each replica has its own value (kOnRead) are left out.
  /// Cost: 0.5 to 3 ns a byte of this process's copies; one copy, if replicas share storage.
  /// @throws Error  kDataLoss, in every process: names the first variable that differs, the
  ///   replicas, and two of the hashes. kInvalidArgument: other variables in another process.
  void verify_replicas(const std::vector<Variable>& variables) const;

  /// The values of this process's replicas, by replica id. Source: experimental_local_results.
  template <typename T>
  std::vector<T> local_results(const PerReplica<T>& value) const {
    return value.values();
  }
  std::vector<at::Tensor> local_results(const at::Tensor& value) const { return {value}; }

  /// Recovers after an error that a lost process caused, or a MembershipChanged: re-forms the
  /// group, if the strategy can (MultiWorkerMirroredOptions::elastic). Then every process makes
  /// anew its iterators of distributed datasets, its Checkpoint, CheckpointManager and
  /// PreemptionCheckpointHandler, restores the last saved state, and continues from there. The old
  /// ones must have been destroyed; variables, modules and optimizers stay.
  /// @return false: it cannot, or the error had another cause; rethrow it.
  bool recover(const Error& error) { return do_recover(error); }
  /// True if `recover` may do something.
  virtual bool is_elastic() const { return false; }

  /// Splits each batch of `dataset` (batched with the global batch size) over the replicas.
  /// Source: experimental_distribute_dataset; rules in distributed_dataset.h.
  DistributedDataset distribute(data::Dataset dataset, const InputOptions& options = {});

  /// Calls `fn(InputContext)` once in each process; each of its replicas takes one whole batch of
  /// that dataset in turn.
  DistributedDataset distribute_from_function(
      const std::function<data::Dataset(const InputContext&)>& fn,
      const InputOptions& options = {});

  /// Calls `fn(ValueContext)` once for each replica of this process.
  template <typename Fn>
  auto values_from_function(Fn&& fn) {
    using Value = std::decay_t<std::invoke_result_t<Fn&, const ValueContext&>>;
    std::vector<Value> values;
    for (int local = 0; local < num_local_replicas(); ++local) {
      values.push_back(fn(ValueContext{.replica_id_in_sync_group = replica_id(local),
                                       .num_replicas_in_sync = num_replicas_in_sync()}));
    }
    return PerReplica<Value>(std::move(values));
  }

 protected:
  explicit Strategy(ReplicaGroupOptions options);
  explicit Strategy(std::shared_ptr<ReplicaGroup> group);

 private:
  class Owner;

  virtual bool do_recover(const Error&) { return false; }
  // See ReplicaGroupOwner.
  virtual Status do_step_failed(const Status& status, const std::string& when);
  virtual void do_mend() {}
  virtual void do_refresh() {}
  virtual std::shared_ptr<StopConsensus> do_make_stop_consensus();

  static Strategy* owner_of(const ReplicaGroup& group);  // null: it no longer exists
  int num_local_replicas() const;
  int replica_id(int local) const;
  void run_replicas(const std::function<void(ReplicaContext&)>& body);
  std::shared_ptr<void> enter_scope() const;
  void require_own(std::string_view call) const;
  void require_runnable(bool is_function) const;

  friend STRATA_API Strategy& detail::strategy_of(const ReplicaGroup& group);
  friend STRATA_API Strategy& get_strategy();

  std::shared_ptr<ReplicaGroup> group_;
  std::unique_ptr<ReplicaGroupOwner> owner_;
};

/// The strategy of this thread's scope or replica function; the default strategy outside.
/// Source: tf.distribute.get_strategy.
STRATA_API Strategy& get_strategy();

/// True inside the scope, or a replica function, of a strategy other than the default one.
STRATA_API bool has_strategy();

/// The strategy of a program that chose none: one replica, on the CPU, on the caller's thread.
/// Outside every scope a thread is in this strategy's replica context, so optimizers and losses
/// work there unchanged.
class STRATA_API DefaultStrategy : public Strategy {
 private:
  DefaultStrategy();
  friend STRATA_API DefaultStrategy& default_strategy();
};

STRATA_API DefaultStrategy& default_strategy();

}  // namespace strata
