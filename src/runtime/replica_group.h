#pragma once

#include <c10/core/ScalarType.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "collective/communicator.h"
#include "collective/in_process/rendezvous.h"
#include "core/mutex.h"
#include "strata/collective/communication_options.h"
#include "strata/core/export.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/replica_options.h"

namespace strata {

class CrossDeviceOps;
class ReplicaContext;
class ReplicaGroupOwner;
class RunObserver;
class StopConsensus;
class VariablePlacement;

/// The processes that train the same variables, and which of them this one is. The first is the
/// chief.
struct Workers {
  int count = 1;
  int index = 0;
};

/// The reduction of gradients over processes.
struct ReductionOptions {
  /// The size of a bucket in bytes; 0: one bucket, or as many as `overlap` needs.
  int64_t bytes_per_pack = 0;
  /// Reduces gradients while backward still runs.
  bool overlap = false;
  /// In which gradients of float32 and float64 travel; empty: in their own.
  std::optional<c10::ScalarType> wire_dtype = {};

  /// In which gradients of variables of this dtype travel.
  c10::ScalarType dtype_on_wire(c10::ScalarType dtype) const {
    const bool is_wide = dtype == c10::ScalarType::Float || dtype == c10::ScalarType::Double;
    return is_wide ? wire_dtype.value_or(dtype) : dtype;
  }
  /// Each process, or each card of all processes, keeps and updates its part of the optimizers'
  /// state, and then all gather the variables.
  bool shard_optimizer_state = false;
};

/// @param where  The owner of the options, for the error.
/// @throws Error  kInvalidArgument: an unknown word for `gradient_compression`.
ReductionOptions reduction_options(std::string_view where,
                                   const collective::CommunicationOptions& options);

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
  /// Sums gradients of replicas that have a GPU each, on the cards. Null: `cross_device_ops` or the
  /// communicator does.
  std::shared_ptr<collective::CardCommunicator> cards = {};
  /// Decides the places of variables' copies, what updates them, and where gradients are added.
  /// Null: every replica has a copy of its own. Variables that are synchronized on read are the
  /// replicas' own in any case.
  std::shared_ptr<const VariablePlacement> placement = {};
  ReductionOptions reduction = {};
  /// The seed of the replicas' random streams.
  uint64_t seed = 0;
  /// The limit of every wait for another replica.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// The other processes are in the middle of their run: initial values are not broadcast,
  /// since a checkpoint will be restored. See finish_catch_up().
  bool late_joiner = false;

  /// The cores that the replicas compute on, as the kernel numbers them; empty: all that this
  /// process may use.
  std::vector<int> cores = {};
  ReplicaOptions replicas = {};
  /// `Strategy::run` takes functions (strata::function) alone, since what they record runs
  /// elsewhere.
  bool functions_only = false;
  /// There it runs in so many processes of equally many replicas, each of which steps by itself:
  /// only the replicas of one process are in sync.
  int separate_processes = 1;
  /// Enables the caching allocator for CPU tensors, and faster kernels in replica functions.
  bool use_cpu_kernels = true;
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
  /// Those that step together with one of them: all, except with `separate_processes`.
  int num_replicas_in_sync() const { return num_replicas() / options_.separate_processes; }
  /// Brings the values of variables up to date, if replicas are elsewhere; before a read outside
  /// `run`.
  void refresh() const;
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
  /// Decides where the group's variables live and what updates them. Never null in options(),
  /// either.
  const VariablePlacement& placement() const { return *options_.placement; }
  /// With a communicator its ranks, which step together; else the placement's workers.
  Workers workers() const;
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
  /// input or a callback, has thrown, or what the cards of all processes do together there has
  /// failed. Ends their calls as a replica function that throws does. Does nothing in a job of one
  /// process, if the step has failed already, or in a `run`, which does it itself.
  void fail_step(const Status& status) const;

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
  /// @param cards  Sums gradients between their GPUs; null: none does.
  void reshape(std::vector<LogicalDevice> devices,
               std::shared_ptr<collective::Communicator> communicator,
               std::shared_ptr<collective::CardCommunicator> cards = {});

  /// Replaces the communicator by another one with the same placement.
  /// @param step  The number of `run`s so far, in which the processes may differ after an error.
  void reconnect(std::shared_ptr<collective::Communicator> communicator,
                 std::shared_ptr<collective::CardCommunicator> cards, uint64_t step);
  /// Re-forms the group if the communicator has failed; called before each of its calls. In a run
  /// it does nothing.
  void mend() const;

  /// Makes a consensus on a step to stop after. All processes make their consensuses in the same
  /// order. @return null in a job of one process.
  std::shared_ptr<StopConsensus> make_stop_consensus() const;

  collective::Rendezvous& rendezvous();

  /// Informs `observer` of every run while its owner keeps it alive.
  void observe(const std::shared_ptr<RunObserver>& observer);

  /// Ends `late_joiner`: this process has the state of the others, and takes part in everything.
  void finish_catch_up() { options_.late_joiner = false; }

  /// Registers a variable, for `reshape`.
  void add(detail::VariableState* variable);
  void remove(detail::VariableState* variable);

  /// The strategy; null after its destruction, and in a group without one. Then a failed
  /// communicator is not replaced.
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
  Mutex mutex_;
  std::vector<std::weak_ptr<RunObserver>> observers_ STRATA_GUARDED_BY(mutex_);
  /// Whether there are any: a run without takes no lock for them.
  std::atomic<bool> observed_{false};
  std::unordered_set<detail::VariableState*> variables_ STRATA_GUARDED_BY(mutex_);
  std::unique_ptr<Threads> threads_;
};

}  // namespace strata
