#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "strata/collective/communication_options.h"
#include "strata/core/export.h"
#include "strata/strategies/strategy.h"

namespace strata {

namespace detail {
class WorkerGroup;
}

struct MultiWorkerMirroredOptions {
  // What is computed.
  /// Says which cluster this process is in, and as which task; null: what started it (TF_CONFIG,
  /// mpirun, srun, Kubernetes). Without a cluster the strategy is that of one process.
  std::shared_ptr<const cluster::ClusterResolver> cluster_resolver = {};
  /// This process's: {"cpu:0", "cpu:1"}; empty: its share of the GPUs that the workers of its
  /// machine see, else a CPU for each core of its share of the cores that they may use, at least
  /// one (as many as set_logical_devices says, where it does). The same shares whether
  /// `strata launch`, mpirun or a shell starts them. Processes may have unequal numbers; all have
  /// GPUs, or none has.
  std::vector<std::string> devices = {};
  /// Of the random streams; unset: the chief's libtorch's (torch::manual_seed). The chief's counts.
  std::optional<uint64_t> seed = {};

  // How processes communicate.
  collective::CommunicationOptions communication_options = {};
  /// Who meets, how long to wait for them, how soon a silent one is lost, TLS.
  cluster::ServerOptions server = {};
  /// When a worker is lost, the others take over its replicas and go on from the last backup, until
  /// it has been started anew: then all save after the same step, and go on with it. As many
  /// replicas, so the same bits. `fit` does so by itself, if it has a BackupAndRestore callback; a
  /// loop of your own needs a PreemptionCheckpointHandler, and `recover`. The chief cannot be
  /// replaced while it is away: all wait for it. Not with implementation MPI.
  bool elastic = false;
  /// Each of n workers keeps and updates the slots (Adam's moments, say) of its n-th of the
  /// elements; then all send each other the new variables. The same bits, 1/n of the slots' memory,
  /// and as many bytes on the wire, but half of them behind backward. Workers of one host that
  /// share memory keep one copy in any case. Whole on each worker stay the slots of variables on
  /// GPUs, of 16 bits, or with sparse gradients, and of Adafactor and Lamb. An optimizer's
  /// `slots()`, and with it a checkpoint, is a call of all workers together then. All workers set
  /// it alike. Source: ZeRO, stage 1 (Rajbhandari et al., 2020).
  bool shard_optimizer_state = false;

  // How fast.
  /// This process's, on its share of the cores; `threads_per_replica` is the chief's everywhere.
  ReplicaOptions replicas = {};
};

/// Synchronous training on the devices of several processes and machines, all of which run the same
/// program: a replica on each device, every variable mirrored on all, gradients summed over all in
/// each step. The weights are those of MirroredStrategy with as many replicas and the same seed:
/// the same bits, however the replicas are spread, and with any number of threads.
///
/// Workers of one machine divide the cores that they may use, and keep to their shares inside
/// `run`.
///
/// The evaluator of a cluster is a process by itself and gets a strategy of its own devices.
///
/// Where a process is lost, calls in all others end with an error that names it (kUnavailable).
/// Where a replica function throws, its caller gets that exception, and those of other workers that
/// wait for it get an error that names the worker and quotes the first line (kAborted). The
/// strategy stays usable: before the next run, or another call of all replicas, the workers meet
/// and connect anew, so each must catch its exception and make the same calls again. They wait for
/// each other for `server.start_timeout`. Not with implementation MPI.
/// Threads: as Strategy.
/// Source: tf.distribute.MultiWorkerMirroredStrategy.
class STRATA_API MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// Meets the other workers; returns when all are there.
  /// @throws Error  as MirroredStrategy, cluster::resolve_cluster and cluster::Server.
  ///   kInvalidArgument: an implementation that there is not; elastic with MPI; some workers
  ///   have GPUs and some only CPUs. With implementation MPI also as
  ///   collective::make_mpi_communicator.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerMirroredOptions& options = {});
  /// The orderly end: waits until the others are done, too, so that each can end whenever it likes.
  /// While an exception is under way, the others hear that this worker cannot go on; not if it is
  /// Preempted, which all of them end with.
  ~MultiWorkerMirroredStrategy() override;

  int num_workers() const;
  /// This process among the workers, from 0; the chief is 0.
  int worker() const;
  /// Null: one process.
  std::shared_ptr<cluster::Server> server() const;
  bool is_elastic() const override;

  /// Some lines for people: which workers and replicas there are, and how they communicate.
  std::string describe() const override;

 private:
  struct Joined;
  explicit MultiWorkerMirroredStrategy(Joined joined);
  bool do_recover(const Error& error) override;
  Status do_step_failed(const Status& status, const std::string& when) override;
  void do_mend() override;
  std::shared_ptr<StopConsensus> do_make_stop_consensus() override;
  void take_in();
  void regroup();

  std::shared_ptr<detail::WorkerGroup> workers_;  // null: one process
  std::vector<LogicalDevice> devices_;            // that this process has by itself
  bool elastic_;
  std::shared_ptr<RunObserver> reporter_;
  // Agreements have numbers, from 1 in each generation: newcomers have made none before.
  uint64_t agreement_generation_ = 0;
  int64_t agreements_ = 0;
};

}  // namespace strata
