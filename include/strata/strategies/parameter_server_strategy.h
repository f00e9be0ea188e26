#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "strata/core/export.h"
#include "strata/ps/placement.h"
#include "strata/ps/server_limits.h"
#include "strata/ps/table.h"
#include "strata/strategies/standalone.h"
#include "strata/strategies/strategy.h"

namespace strata {

namespace ps {
class Client;
}

struct ParameterServerStrategyOptions {
  // Results.
  /// Finds the cluster and this process's task; null: from its launcher (TF_CONFIG, mpirun, srun,
  /// Kubernetes). Without a cluster, or in one without parameter servers, the strategy is that of
  /// one process.
  std::shared_ptr<const cluster::ClusterResolver> cluster_resolver = {};
  /// This worker's devices: {"cpu:0", "cpu:1"}; empty: all GPUs, else every logical CPU.
  std::vector<std::string> devices = {};
  /// The seed of the random streams, which differ on each worker; unset: libtorch's.
  std::optional<uint64_t> seed = {};

  // Synchronization of workers.
  /// `workers` is set by the strategy.
  ps::ConsistencyOptions consistency = {};
  ps::PushPrecision push_precision = ps::PushPrecision::kFull;
  /// The placement of variables on servers: automatic (equal bytes), or TensorFlow's rules.
  ps::PlacementOptions placement = {};
  /// Each server's part has a backup on the next one, so that a lost server costs no step
  /// (TableSpec); also for embeddings. The same in all workers; it needs at least two servers.
  bool backup = false;
  /// The limit of the wait for the servers at the start, the liveness interval, TLS.
  cluster::ServerOptions server = {};
  /// The limit of a wait for a server, or, through it, for other workers.
  std::chrono::nanoseconds timeout = std::chrono::minutes(30);

  // Where replicas run.
  /// "standalone": on servers without this program's code (docs/standalone.md). `standalone.servers` are
  /// the workers, with `devices` each, and `standalone.parameter_servers` hold the variables;
  /// `cluster_resolver` and `server` are ignored.
  ClientMode client = {};
  StandaloneOptions standalone = {};

  // Performance.
  /// Asynchronous training: a step's push and pull are under way while the next one computes, whose
  /// values are then one push of this worker's own older. What variables hold between two steps are
  /// the values behind the push before the last; an error of a push is the next step's.
  bool pull_ahead = false;
  /// Servers on this host read gradients and write values in memory that this process shares with
  /// them; false: all bytes travel.
  bool share_memory = true;
  ReplicaOptions replicas = {};
};

/// Training with parameter servers: tasks of the job `ps` hold the variables that optimizers train,
/// and update them; each worker computes gradients by itself, pushes them and pulls the new values
/// in each step. A slow or lost worker does not stop the others, and a restarted one takes part
/// again.
///
/// Variables that an optimizer trains are on the servers from then on: first the chief's values,
/// and in all workers the current ones after each of their steps. Variables that no optimizer
/// trains (moving statistics) are each worker's own. Steps are one worker's: `num_replicas_in_sync`
/// is the number of its devices, and an optimizer's `iterations` counts all workers' steps.
///
/// In a process that is a parameter server the constructor throws: call `run_main`, or
/// `run_parameter_server`, before it:
///
///     if (run_parameter_server()) return 0;
///     ParameterServerStrategy strategy;
///
/// A standalone client is one program for all workers: `run` is a step of each, with its own part of
/// the input, and returns when all have made it. `num_replicas_in_sync` is still one worker's.
///
/// If a server is lost, the next step ends with kUnavailable, which names it; with `backup`
/// training continues, and a warning names it.
/// Threads: as Strategy.
/// Source: tf.distribute.ParameterServerStrategy, without a coordinator.
class STRATA_API ParameterServerStrategy : public Strategy, public ClientSession {
 public:
  /// Connects to the servers.
  /// @throws Error  kFailedPrecondition: this process is a parameter server. kInvalidArgument: a
  ///   cluster that cannot run; devices. kDeadlineExceeded: names the absent server. With client =
  ///   "standalone" as MirroredStrategy; kUnimplemented: with rules of placement.
  explicit ParameterServerStrategy(const ParameterServerStrategyOptions& options = {});
  /// Ends this worker in an orderly way; the chief's ends the servers when all workers have ended,
  /// unless an exception ends it: then the servers wait for it to be started again.
  ~ParameterServerStrategy() override;

  /// Of a standalone client: its servers that run steps.
  int num_workers() const;
  /// The index of this process among the workers, from 0; 0 is the chief, and a standalone client.
  int worker() const;
  int num_servers() const;

  /// True if tables have a backup.
  bool has_backup() const { return backup_; }

 private:
  void do_refresh() override;
  friend class ServerEmbedding;
  struct Joined;
  explicit ParameterServerStrategy(Joined joined);

  std::shared_ptr<ps::Client> client_;  // null without servers
  bool backup_;
  const int exceptions_;  // under way when it was made
};

struct RunParameterServerOptions {
  std::shared_ptr<const cluster::ClusterResolver> cluster_resolver = {};
  cluster::ServerOptions server = {};
  ps::ServerLimits limits = {};
};

/// In a process that is a parameter server, serves until the chief and all workers have ended.
/// @return false, at once: it is not a parameter server.
/// @throws Error  As ps::ParameterServer.
STRATA_API bool run_parameter_server(const RunParameterServerOptions& options = {});

}  // namespace strata
