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
#include "strata/strategies/standalone.h"
#include "strata/strategies/strategy.h"

namespace strata {

namespace detail {
class WorkerGroup;
}

struct MultiWorkerMirroredOptions {
  // Results.
  /// Finds the cluster and this process's task; null: from its launcher (TF_CONFIG, mpirun, srun,
  /// Kubernetes). Without a cluster the strategy is that of one process.
  std::shared_ptr<const cluster::ClusterResolver> cluster_resolver = {};
  /// This process's devices: {"cpu:0", "cpu:1"}. Empty: its share of the GPUs that the workers of
  /// its machine see, else a CPU for each core of its share of the cores that they may use, at
  /// least one (or the number of set_logical_devices). The shares are the same whether `strata
  /// launch`, mpirun or a shell starts them. Processes may have unequal numbers; all have GPUs, or
  /// none has.
  std::vector<std::string> devices = {};
  /// This worker may use a GPU that another worker of its machine uses, which may do so, too. Otherwise
  /// two workers on one GPU are an error in all, since nothing is faster so; it serves to try on one
  /// GPU what will run on several. The environment's STRATA_SHARED_GPUS=allow is the same.
  bool share_gpus = false;
  /// The seed of the random streams, the chief's; unset: its libtorch's (torch::manual_seed).
  std::optional<uint64_t> seed = {};

  // Communication between processes.
  collective::CommunicationOptions communication_options = {};
  /// The members, the limit of the wait for them, the liveness interval, TLS.
  cluster::ServerOptions server = {};
  /// When a worker is lost, the others take over its replicas and continue from the last backup,
  /// until it has been restarted: then all save after the same step, and continue with it. The
  /// number of replicas stays, so the bits are the same. `fit` does so by itself, with a
  /// BackupAndRestore callback; a custom loop needs a PreemptionCheckpointHandler, and `recover`.
  /// While the chief is lost, all wait for it. Not with implementation MPI.
  bool elastic = false;
  /// Each of n workers keeps and updates the slots (Adam's moments, for example) of its n-th of the
  /// elements; then the new variables are all-gathered. The bits are the same, with 1/n of the
  /// slots' memory, and as many bytes on the wire, but half of them after backward. Workers of one
  /// host that share memory keep one copy in any case. Where replicas have a GPU each whose gradients
  /// are summed on the cards, in one process or several, n is the number of replicas, and each card
  /// has its n-th (docs/gpu.md). Slots are whole for variables with sparse gradients, on CPUs for
  /// those of 16 bits, and for Adafactor, Lamb, LARS and Muon. An optimizer's `slots()`, and with it a
  /// checkpoint, is then a call of all workers together. All workers set it alike.
  /// Source: ZeRO, stages 1 and 2 (Rajbhandari et al., 2020).
  bool shard_optimizer_state = false;

  /// "standalone": each of `standalone.servers` is a worker with `devices` (default: {"cpu:0"}), and this
  /// process is none: it needs no cluster. `run` takes a strata::function alone, whose graph they run
  /// (docs/standalone.md). `communication_options.timeout` limits a run; the other communication options,
  /// `cluster_resolver` and `server` have no effect.
  ClientMode client = {};
  StandaloneOptions standalone = {};

  // Performance.
  /// Applies to this process's share of the cores; `threads_per_replica` is the chief's everywhere.
  ReplicaOptions replicas = {};
};

/// Synchronous training on the devices of several processes and machines, all of which run the same
/// program: a replica on each device, every variable mirrored on all, gradients summed over all in
/// each step. The weights are those of MirroredStrategy with as many replicas and the same seed:
/// the same bits, for any distribution of the replicas, and with any number of threads.
///
/// Workers of one machine divide the cores that they may use, and keep to their shares inside
/// `run`.
///
/// The evaluator of a cluster is a process by itself and gets a strategy of its own devices.
///
/// If a process is lost, calls in all others end with an error that names it (kUnavailable). If a
/// replica function throws, its caller gets that exception, and those of other workers that wait
/// for it get an error that names the worker and quotes the first line (kAborted). The strategy
/// stays usable: before the next run, or another call of all replicas, the workers reconnect, so
/// each must catch its exception and make the same calls again. They wait for each other for
/// `server.start_timeout`. Not with implementation MPI.
/// Threads: as Strategy.
/// Source: tf.distribute.MultiWorkerMirroredStrategy.
class STRATA_API MultiWorkerMirroredStrategy : public Strategy, public ClientSession {
 public:
  /// Joins the other workers; returns when all have joined.
  /// @throws Error  as MirroredStrategy, cluster::resolve_cluster and cluster::Server.
  ///   kInvalidArgument: an unknown implementation; elastic with MPI; some workers have GPUs and
  ///   some only CPUs; two workers use one GPU. With implementation MPI also as collective::make_mpi_communicator.
  ///   With client = "standalone" as MirroredStrategy; kInvalidArgument, kUnimplemented: with elastic or
  ///   shard_optimizer_state.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerMirroredOptions& options = {});
  /// Shuts down in an orderly way: waits until the others are done, too, so that each can end at
  /// any time. While an exception unwinds, it informs the others that this worker cannot continue;
  /// not for Preempted, with which all of them end.
  ~MultiWorkerMirroredStrategy() override;

  /// Of a standalone client: the servers.
  int num_workers() const;
  /// The index of this process among the workers, from 0; the chief is 0, and so is a standalone client.
  int worker() const;
  /// Null in a job of one process.
  std::shared_ptr<cluster::Server> server() const;
  bool is_elastic() const override;

  /// Some lines for logs: the workers and replicas, and how they communicate.
  std::string describe() const override;

 private:
  struct Joined;
  explicit MultiWorkerMirroredStrategy(Joined joined);
  bool do_recover(const Error& error) override;
  bool recover_cards(const Error& error);
  bool has_failed_cards() const;
  Status do_step_failed(const Status& status, const std::string& when) override;
  void do_mend() override;
  void do_refresh() override;
  std::shared_ptr<StopConsensus> do_make_stop_consensus() override;
  void take_in();
  void regroup();

  std::shared_ptr<detail::WorkerGroup> workers_;  // null: one process
  std::vector<LogicalDevice> devices_;            // this process's own
  bool elastic_;
  std::shared_ptr<RunObserver> reporter_;
  // Consensuses have numbers, from 1 in each generation, since new members have not made any
  // before.
  uint64_t agreement_generation_ = 0;
  int64_t agreements_ = 0;
};

}  // namespace strata
