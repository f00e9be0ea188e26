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
#include "strata/ps/push.h"
#include "strata/ps/table.h"
#include "strata/strategies/strategy.h"

namespace strata {

namespace ps {
class Client;
}

struct ParameterServerStrategyOptions {
  // What is computed.
  /// Says which cluster this process is in, and as which task; null: what started it (TF_CONFIG,
  /// mpirun, srun, Kubernetes). Without a cluster, or in one without parameter servers, the
  /// strategy is that of one process.
  std::shared_ptr<const cluster::ClusterResolver> cluster_resolver = {};
  /// This worker's: {"cpu:0", "cpu:1"}; empty: all GPUs, else every logical CPU.
  std::vector<std::string> devices = {};
  /// Of the random streams, which are others on each worker; unset: libtorch's.
  std::optional<uint64_t> seed = {};

  // How workers train together.
  /// `workers` is set by the strategy.
  ps::ConsistencyOptions consistency = {};
  ps::PushPrecision push_precision = ps::PushPrecision::kFull;
  /// Who holds which variable: automatic (equal bytes), or TensorFlow's rules.
  ps::PlacementOptions placement = {};
  /// Each server's part has a copy on the next one, so that a lost server costs no step
  /// (TableSpec); of embeddings, too. The same in all workers; takes two servers at least.
  bool backup = false;
  /// How long to wait for the servers at the start, how soon a silent one is lost, TLS.
  cluster::ServerOptions server = {};
  /// Of a wait for a server, or, through it, for other workers.
  std::chrono::nanoseconds timeout = std::chrono::minutes(30);

  // How fast.
  ReplicaOptions replicas = {};
};

/// Training with parameter servers: tasks of the job `ps` hold what optimizers train, and update
/// it; each worker computes gradients by itself, brings them and gets the new values in each step.
/// A slow or lost worker does not stop the others, and one that is started anew takes part again.
///
/// What variables an optimizer trains is on the servers from then on: the chief's first values, and
/// the present ones in all workers after each of their steps. Variables that no optimizer trains
/// (moving statistics) are each worker's own. Steps are of one worker: `num_replicas_in_sync` is
/// the number of its devices, and an optimizer's `iterations` counts all workers' steps.
///
/// In a process that is a parameter server the constructor throws: `run_main`, or
/// `run_parameter_server`, comes before it:
///
///     if (run_parameter_server()) return 0;
///     ParameterServerStrategy strategy;
///
/// Where a server is lost, the next step ends with kUnavailable, which names it; with `backup` it
/// goes on, and a warning names it.
/// Threads: as Strategy.
/// Source: tf.distribute.ParameterServerStrategy, without a coordinator.
class STRATA_API ParameterServerStrategy : public Strategy {
 public:
  /// Meets the servers.
  /// @throws Error  kFailedPrecondition: this process is a parameter server. kInvalidArgument: a
  ///   cluster that cannot run; devices. kDeadlineExceeded: names the server that is not there.
  explicit ParameterServerStrategy(const ParameterServerStrategyOptions& options = {});
  /// The orderly end of this worker; the chief's ends the servers when all have gone.
  ~ParameterServerStrategy() override;

  int num_workers() const;
  /// This process's place among them, from 0; 0 is the chief.
  int worker() const;
  int num_servers() const;

  /// Null: there are no servers.
  const std::shared_ptr<ps::Client>& client() const { return client_; }
  /// Whether tables have a backup.
  bool has_backup() const { return backup_; }

 private:
  struct Joined;
  explicit ParameterServerStrategy(Joined joined);

  std::shared_ptr<ps::Client> client_;
  bool backup_;
};

struct RunParameterServerOptions {
  std::shared_ptr<const cluster::ClusterResolver> cluster_resolver = {};
  cluster::ServerOptions server = {};
};

/// In a process that is a parameter server: serves until the chief has ended and all workers have
/// gone. @return false, at once: it is none.
/// @throws Error  As ps::ParameterServer.
STRATA_API bool run_parameter_server(const RunParameterServerOptions& options = {});

}  // namespace strata
