#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "strata/collective/communicator.h"
#include "strata/collective/rendezvous.h"
#include "strata/core/export.h"
#include "strata/runtime/devices.h"

namespace strata {

class CrossDeviceOps;
class ParameterStore;
class ReplicaContext;
class Strategy;

/// The placement and resources of a strategy's replicas. Results depend on the number of devices
/// and `seed` alone.
struct ReplicaGroupOptions {
  /// Used in messages and thread names.
  std::string name = "strategy";
  /// This process has one replica on each.
  std::vector<LogicalDevice> devices = {};
  /// Connects to the processes that hold the other replicas; null: this is the only one. Its
  /// placement defines which replicas are this process's, in the order of `devices`.
  std::shared_ptr<collective::Communicator> communicator = {};
  /// Null: the `in_process` back end of collective.
  std::shared_ptr<CrossDeviceOps> cross_device_ops = {};
  /// Keeps optimizers' values elsewhere; null: they are kept here.
  std::shared_ptr<ParameterStore> parameter_store = {};
  /// For processes that train the same variables, each in steps of its own: their number, and the
  /// index of this one. The first is the chief.
  int num_workers = 1;
  int worker = 0;
  /// The device of each variable's only copy; replicas on other devices read mirrors of it.
  /// Variables that are synchronized on read are the replicas' own even so. Unset: each replica has
  /// a copy of every variable. One process only.
  std::optional<LogicalDevice> parameter_device = {};
  /// The seed of the replicas' random streams.
  uint64_t seed = 0;
  /// The limit of every wait for another replica.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// The size of a bucket of gradients between processes, in bytes; 0: one bucket.
  int64_t bytes_per_pack = 0;
  /// Reduces gradients while backward still runs.
  bool overlap = false;
  /// Each process keeps and updates its part of the optimizers' state of CPU variables, and then
  /// all gather the variables.
  bool shard_optimizer_state = false;
  /// The other processes are in the middle of their run: initial values are not broadcast, since a
  /// checkpoint will be restored. See finish_catch_up().
  bool late_joiner = false;

  /// The cores that the replicas compute on, as the kernel numbers them; empty: all that this
  /// process may use.
  std::vector<int> cores = {};
  /// The number of replicas that compute at a time; 0: one per core.
  int permits = 0;
  /// Intra-op threads; 0: cores / replicas, at least 1. The bits do not depend on it.
  int threads_per_replica = 0;
  /// CPU replicas share one copy of the variables that an optimizer updates; false: each has its
  /// own. Unset: one copy, if they have more than 2 MiB together.
  std::optional<bool> share_storage = {};
  /// Pins each replica thread to a core, if there is one for each.
  bool pin_threads = true;
  /// Enables the caching allocator for CPU tensors, and faster kernels in replica functions.
  bool use_cpu_kernels = true;
};

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

/// The owner's handling of failures of the other processes. Called outside replica functions, while
/// no run is in progress.
struct GroupLinks {
  /// A step has failed in this process: informs the others, which may wait for it.
  /// @param when  "in run 7", for messages.
  std::function<void(const Status& status, const std::string& when)> step_failed = {};
  /// A collective call has failed in all processes: re-forms the group and calls `reconnect`.
  /// @throws Error  the reason why no further call is possible.
  std::function<void()> mend = {};
};

namespace detail {
class VariableState;
}

/// The replicas of one strategy in this process: their devices, threads and barrier, and the
/// communicator to the replicas of other processes. The first runs on the caller's thread, each
/// other one on a thread of its own that lives as long as the group. A strategy owns a group;
/// variables keep it alive.
///
/// A replica's id is its number among all replicas; its local number, from 0, is its number among
/// those of this process. Both are the same in a job of one process.
class STRATA_API ReplicaGroup : public std::enable_shared_from_this<ReplicaGroup> {
 public:
  explicit ReplicaGroup(ReplicaGroupOptions options);
  ~ReplicaGroup();
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  const std::string& name() const { return options_.name; }
  /// The replicas of all processes.
  int num_replicas() const;
  /// The replicas of this process.
  int num_local_replicas() const { return static_cast<int>(options_.devices.size()); }
  /// The id of the replica with this local number.
  int replica_id(int local) const;
  const LogicalDevice& device(int local) const {
    return options_.devices[static_cast<size_t>(local)];
  }
  /// Null: all replicas are in this process.
  collective::Communicator* communicator() const { return options_.communicator.get(); }
  bool all_cpu() const { return all_cpu_; }
  /// True if several replicas are logical GPUs of one card: autograd has one thread for them all.
  bool shares_gpu() const { return shares_gpu_; }
  /// True if a variable that an optimizer trains has one value for all replicas of this process, in
  /// one storage or in copies that the optimizer keeps equal.
  bool may_share_storage() const {
    return options_.share_storage.value_or(true) && all_cpu_ &&
           (!options_.parameter_device || options_.parameter_device->physical.is_cpu());
  }
  /// True if each variable has one copy, on options().parameter_device.
  bool keeps_one_copy() const { return options_.parameter_device.has_value(); }
  /// True if, besides, replicas read mirrors of it.
  bool has_mirrors() const { return keeps_one_copy() && !may_share_storage(); }
  CrossDeviceOps* cross_device_ops() const { return options_.cross_device_ops.get(); }
  const ReplicaGroupOptions& options() const { return options_; }

  /// Runs `body` once for each replica of this process, at the same time, and returns when all have
  /// returned.
  /// @throws the exception of the first replica that failed; the others are stopped at their next
  ///         barrier, also those of other processes, with an error that names this process. Error
  ///         kFailedPrecondition: called by a replica function.
  /// Threads: any outside a replica function; calls take turns.
  /// Cost: microseconds beyond the body's own while the replica threads are warm (0.3 ms).
  void run(const std::function<void(ReplicaContext&)>& body);

  /// Fails a step in which other processes wait for this one: user code outside `run`, such as
  /// input or a callback, has thrown. Ends their calls as a replica function that throws does. Does
  /// nothing in a job of one process, or if the step has failed already. Outside `run`.
  void fail_step(const Status& status);

  /// The number of `run`s so far: with the seed and the replica id it keys the random streams.
  uint64_t step() const;
  void set_step(uint64_t step);

  /// The seed of the replicas' random streams: options().seed, unless a restored checkpoint had
  /// another.
  uint64_t seed() const;
  /// Outside `run` only.
  void set_seed(uint64_t seed);

  /// Gives this process other replicas of the same job, and another communicator: variables get or
  /// lose copies (new ones have the first's value), and observers are informed. The caller restores
  /// the state that replicas had for themselves alone. Outside `run`.
  /// @param devices  One for each replica of this process, as `communicator` defines.
  void reshape(std::vector<LogicalDevice> devices,
               std::shared_ptr<collective::Communicator> communicator);

  /// Replaces the communicator by another one with the same placement.
  /// @param step  The number of `run`s so far, in which the processes may differ after an error.
  void reconnect(std::shared_ptr<collective::Communicator> communicator, uint64_t step);
  /// Null functions: a failed communicator stays.
  void set_links(GroupLinks links) { links_ = std::move(links); }
  /// Re-forms the group if the communicator has failed; called before each of its calls. In a run
  /// it does nothing.
  void mend() const;

  collective::Rendezvous& rendezvous();

  /// Informs `observer` of every run while its owner keeps it alive.
  void observe(const std::shared_ptr<RunObserver>& observer);

  /// Ends `late_joiner`: this process has the state of the others, and takes part in everything.
  void finish_catch_up() { options_.late_joiner = false; }

  /// Registers a variable, for `reshape`.
  void add(detail::VariableState* variable);
  void remove(detail::VariableState* variable);

  /// The strategy that owns this group, null after its destruction.
  Strategy* strategy() const { return strategy_; }
  void set_strategy(Strategy* strategy) { strategy_ = strategy; }

 private:
  struct Threads;

  std::vector<std::shared_ptr<RunObserver>> observers();
  void mend_in_turn() const;
  void tell_others(const Status& status, const std::string& when) const;

  ReplicaGroupOptions options_;
  bool all_cpu_;
  bool shares_gpu_;
  Strategy* strategy_ = nullptr;
  GroupLinks links_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<RunObserver>> observers_;     // guarded by mutex_
  std::unordered_set<detail::VariableState*> variables_;  // guarded by mutex_
  std::unique_ptr<Threads> threads_;
};

}  // namespace strata
