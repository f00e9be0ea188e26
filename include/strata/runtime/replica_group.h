#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "strata/collective/communicator.h"
#include "strata/collective/rendezvous.h"
#include "strata/core/export.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/replica_options.h"

namespace strata {

class CrossDeviceOps;
class ReplicaContext;
class ReplicaGroupOwner;
class StopConsensus;
class VariablePlacement;

/// The processes that train the same variables, and which of them this one is. The first is the
/// chief.
struct Workers {
  int count = 1;
  int index = 0;
};

/// How gradients are added over processes.
struct ReductionOptions {
  /// They travel in packs of about so many bytes; 0: all in one, or as many as `overlap` wants.
  int64_t bytes_per_pack = 0;
  /// They travel while backward still runs.
  bool overlap = false;
  /// Each process keeps and updates its part of what optimizers keep of CPU variables, and then all
  /// send each other their part of the variables.
  bool shard_optimizer_state = false;
};

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
  /// Where copies of variables live, what updates them, and where gradients are added. Null: every
  /// replica has a copy of its own. Variables that are synchronized on read are the replicas' own
  /// in any case.
  std::shared_ptr<const VariablePlacement> placement = {};
  ReductionOptions reduction = {};
  /// Of the replicas' random streams.
  uint64_t seed = 0;
  /// Of every wait for another replica.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// The other processes are in the middle of their run: initial values are not agreed on with
  /// them, since a checkpoint will bring all. See finish_catch_up().
  bool late_joiner = false;

  /// That the replicas compute on, as the kernel numbers them; empty: all that this process may
  /// use.
  std::vector<int> cores = {};
  ReplicaOptions replicas = {};
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
  /// Where the group's variables live, and what updates them.
  const VariablePlacement& placement() const { return *options_.placement; }
  /// With a communicator its ranks, which step together; else the placement's workers.
  Workers workers() const;
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
  /// Before a call of the communicator: after one that failed, gets another first. In a run
  /// nothing.
  void mend() const;

  /// How the processes agree on a step to stop after. All of them make the agreements that they
  /// make in the same order. @return null: there is one process.
  std::shared_ptr<StopConsensus> make_stop_consensus() const;

  collective::Rendezvous& rendezvous();

  /// `observer` is told of every run while somebody else keeps it alive.
  void observe(const std::shared_ptr<RunObserver>& observer);

  /// From now on this process does all that the others do: it has the state that they go on from.
  void finish_catch_up() { options_.late_joiner = false; }

  /// Variables make themselves known, for `reshape`.
  void add(detail::VariableState* variable);
  void remove(detail::VariableState* variable);

  /// The strategy; null once it is gone, and in a group without one. Then nothing mends a failed
  /// communicator.
  ReplicaGroupOwner* owner() const { return owner_; }
  void set_owner(ReplicaGroupOwner* owner) { owner_ = owner; }

 private:
  struct Threads;

  std::vector<std::shared_ptr<RunObserver>> observers();
  void mend_in_turn() const;
  void tell_others(const Status& status, const std::string& when) const;

  ReplicaGroupOptions options_;
  bool all_cpu_;
  bool shares_gpu_;
  ReplicaGroupOwner* owner_ = nullptr;
  std::mutex mutex_;
  std::vector<std::weak_ptr<RunObserver>> observers_;     // guarded by mutex_
  std::unordered_set<detail::VariableState*> variables_;  // guarded by mutex_
  std::unique_ptr<Threads> threads_;
};

}  // namespace strata
