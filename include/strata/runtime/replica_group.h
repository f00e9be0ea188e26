#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "strata/collective/communicator.h"
#include "strata/collective/rendezvous.h"
#include "strata/core/export.h"
#include "strata/core/mutex.h"
#include "strata/runtime/devices.h"

namespace strata {

class CrossDeviceOps;
class ParameterStore;
class ReplicaContext;
class Strategy;

/// Where and how the replicas of a strategy run. Results do not depend on anything here but the
/// number of devices and `seed`.
struct ReplicaGroupOptions {
  /// For messages and thread names.
  std::string name = "strategy";
  /// One replica of this process on each.
  std::vector<LogicalDevice> devices = {};
  /// To the processes that hold the other replicas; null: there are none. Its placement says which
  /// replicas are this process's, in the order of `devices`.
  std::shared_ptr<collective::Communicator> communicator = {};
  /// Null: the `shared` back end of collective.
  std::shared_ptr<CrossDeviceOps> cross_device_ops = {};
  /// Where optimizers' values are kept, if not here.
  std::shared_ptr<ParameterStore> parameter_store = {};
  /// Where processes train the same variables, each in steps of its own: how many there are, and
  /// which this is. The first is the chief.
  int num_workers = 1;
  int worker = 0;
  /// Where each variable has its only copy; replicas on other devices read mirrors of it. Variables
  /// that are synchronized on read are the replicas' own even so. Unset: each replica has a copy of
  /// every variable. One process only.
  std::optional<LogicalDevice> parameter_device = {};
  /// Of the replicas' random streams.
  uint64_t seed = 0;
  /// Of every wait for another replica.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// Gradients travel between processes in packs of about so many bytes; 0: all in one.
  int64_t bytes_per_pack = 0;
  /// They travel while backward still runs.
  bool overlap = false;
  /// Each process keeps and updates its part of what optimizers keep of CPU variables, and then all
  /// send each other their part of the variables.
  bool shard_optimizer_state = false;
  /// The other processes are in the middle of their run: initial values are not agreed on with
  /// them, since a checkpoint will bring all. See caught_up().
  bool late_joiner = false;

  /// That the replicas compute on, as the kernel numbers them; empty: all that this process may
  /// use.
  std::vector<int> cores = {};
  /// Replicas that compute at a time; 0: one per core.
  int permits = 0;
  /// Intra-op threads; 0: cores / replicas, at least 1. The same bits with any number.
  int threads_per_replica = 0;
  /// CPU replicas keep one copy of what an optimizer updates; false: each one of its own. Unset:
  /// one copy, if all of it together has more than 2 MiB.
  std::optional<bool> share_storage = {};
  /// Keep each replica thread on a core, where there is one for each.
  bool pin_threads = true;
  /// Caching allocator for CPU tensors, faster kernels in replica functions.
  bool use_cpu_kernels = true;
};

/// Told when a replica of this process enters and leaves a `run`, on the replica's thread.
class STRATA_API RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before_run() {}  ///< On the caller's thread, before any replica enters.
  virtual void on_run_begin(int local) = 0;
  virtual void on_run_end(int local) = 0;  ///< Not called where the function threw.
  virtual void on_resize() {}              ///< The group has got other replicas; outside `run`.
  /// The same replicas have got another communicator: what was made with the one before is over.
  virtual void reconnected() {}
};

/// How a group's owner keeps the way to the other processes. Called outside replica functions,
/// while no run is under way.
struct GroupLinks {
  /// A step has failed in this process: tells the others, which may wait for it.
  /// @param when  "in run 7", for messages.
  std::function<void(const Status& status, const std::string& when)> step_failed = {};
  /// A collective call has failed in all processes: meets them and calls `reconnect`.
  /// @throws Error  why there can be no further call.
  std::function<void()> mend = {};
};

namespace detail {
class VariableState;
}

/// The replicas of one strategy that live in this process: their devices, their threads and the
/// place where they meet; and the way to the replicas of other processes. The first runs on the
/// caller's thread, each other one on a thread of its own that lives as long as the group. A
/// strategy owns a group; variables keep it alive.
///
/// A replica's id is its number among all replicas; its local number, from 0, is its place among
/// this process's. Both are the same where there is one process.
class STRATA_API ReplicaGroup : public std::enable_shared_from_this<ReplicaGroup> {
 public:
  explicit ReplicaGroup(ReplicaGroupOptions options);
  ~ReplicaGroup();
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  const std::string& name() const { return options_.name; }
  /// Of all processes.
  int num_replicas() const;
  /// Of this process.
  int num_local_replicas() const { return static_cast<int>(options_.devices.size()); }
  /// The id of the replica with this local number.
  int replica_id(int local) const;
  const LogicalDevice& device(int local) const {
    return options_.devices[static_cast<size_t>(local)];
  }
  /// Null: all replicas are in this process.
  collective::Communicator* communicator() const { return options_.communicator.get(); }
  bool all_cpu() const { return all_cpu_; }
  /// Several replicas are logical GPUs of one card: autograd has one thread for them all.
  bool shares_gpu() const { return shares_gpu_; }
  /// What an optimizer trains has one value for all replicas of this process, in one storage or in
  /// copies that the optimizer keeps equal.
  bool may_share_storage() const {
    return options_.share_storage.value_or(true) && all_cpu_ &&
           (!options_.parameter_device || options_.parameter_device->physical.is_cpu());
  }
  /// Each variable has one copy, on options().parameter_device.
  bool keeps_one_copy() const { return options_.parameter_device.has_value(); }
  /// And replicas read mirrors of it.
  bool has_mirrors() const { return keeps_one_copy() && !may_share_storage(); }
  CrossDeviceOps* cross_device_ops() const { return options_.cross_device_ops.get(); }
  const ReplicaGroupOptions& options() const { return options_; }

  /// Runs `body` once for each replica of this process, at the same time, and returns when all have
  /// returned.
  /// @throws what the first replica to fail threw; the others are stopped at their next meeting,
  ///         those of other processes, too, with an error that names this process. Error
  ///         kFailedPrecondition: called by a replica function.
  /// Threads: any outside a replica function; calls take turns.
  /// Cost: microseconds beyond the body's own while the replica threads are warm (0.3 ms).
  void run(const std::function<void(ReplicaContext&)>& body);

  /// What other processes wait for in this step will not come: code of the user's outside `run`, as
  /// input or a callback, has thrown. Ends their calls as a replica function that throws does.
  /// Nothing where there is one process, or the step has failed already. Outside `run`.
  void fail_step(const Status& status);

  /// Number of `run`s so far: with the seed and the replica id it keys the random streams.
  uint64_t step() const;
  void set_step(uint64_t step);

  /// Of the replicas' random streams: options().seed, unless a restored checkpoint brought another.
  uint64_t seed() const;
  /// Outside `run` only.
  void set_seed(uint64_t seed);

  /// Gives this process other replicas of the same job, and other ways to the rest: variables get
  /// or lose copies (new ones have the first's value), observers are told. What replicas had for
  /// themselves alone is to be restored by the caller. Outside `run`.
  /// @param devices  One a replica of this process, as `communicator` says.
  void reshape(std::vector<LogicalDevice> devices,
               std::shared_ptr<collective::Communicator> communicator);

  /// From now on values travel through `communicator`, which has the placement of the one before.
  /// @param step  The number of `run`s so far, in which the processes may differ after an error.
  void reconnect(std::shared_ptr<collective::Communicator> communicator, uint64_t step);
  /// Null functions: a failed communicator stays.
  void set_links(GroupLinks links) { links_ = std::move(links); }
  /// Before a call of the communicator: after one that failed, gets another first. In a run
  /// nothing.
  void mend() const;

  collective::Rendezvous& rendezvous();

  /// `observer` is told of every run while somebody else keeps it alive.
  void observe(const std::shared_ptr<RunObserver>& observer);

  /// From now on this process does all that the others do: it has the state that they go on from.
  void finish_catch_up() { options_.late_joiner = false; }

  /// Variables make themselves known, for `reshape`.
  void add(detail::VariableState* variable);
  void remove(detail::VariableState* variable);

  /// The strategy that owns this group, null once it is gone.
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
  Mutex mutex_;
  std::vector<std::weak_ptr<RunObserver>> observers_ STRATA_GUARDED_BY(mutex_);
  std::unordered_set<detail::VariableState*> variables_ STRATA_GUARDED_BY(mutex_);
  std::unique_ptr<Threads> threads_;
};

}  // namespace strata
