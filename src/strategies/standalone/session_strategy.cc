#include "strategies/standalone/session_strategy.h"

#include "strata/cluster/resolvers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "strategies/standalone/parameter_host.h"

namespace strata::standalone {
namespace {

const ReplicaOptions kReplicas{.pin_threads = false};  // sessions share the cores

/// All servers' replicas in sync.
std::unique_ptr<Strategy> make_mirrored(const GroupSpec& spec) {
  if (spec.servers == 1) {
    return std::make_unique<MirroredStrategy>(MirroredOptions{.devices = spec.devices,
                                                              .seed = spec.seed,
                                                              .timeout = spec.wait_timeout,
                                                              .replicas = kReplicas});
  }
  std::vector<std::string> addresses(static_cast<size_t>(spec.servers), ":0");
  addresses[0] = spec.leader;
  const cluster::ClusterSpec cluster = {{"worker", addresses}};
  MultiWorkerMirroredOptions options;
  options.cluster_resolver = std::make_shared<cluster::SimpleResolver>(
      cluster, cluster::SimpleOptions{.task_type = "worker", .task_id = spec.rank});
  options.devices = spec.devices;
  options.seed = spec.seed;
  options.communication_options.timeout = spec.wait_timeout;
  options.server.start_timeout = spec.join_timeout;
  options.server.listen_address = spec.listen_address;
  options.server.job = spec.job;
  options.server.tls = spec.tls;
  options.server.job_secret = spec.job_secret;
  options.replicas = kReplicas;
  return std::make_unique<MultiWorkerMirroredStrategy>(options);
}

/// This server's replicas, whose variables are on parameter servers.
std::unique_ptr<Strategy> make_worker(const GroupSpec& spec) {
  const ParametersSpec& parameters = *spec.parameters;
  ParameterServerStrategyOptions options;
  options.cluster_resolver = std::make_shared<cluster::SimpleResolver>(
      cluster_of(parameters), cluster::SimpleOptions{.task_type = "worker", .task_id = spec.rank});
  options.devices = spec.devices;
  options.seed = spec.seed;
  options.consistency = {.kind = parameters.consistency,
                         .staleness = parameters.staleness,
                         .backups = static_cast<int>(parameters.backup_workers)};
  options.push_precision = parameters.precision;
  options.backup = parameters.backup;
  options.pull_ahead = parameters.pull_ahead;
  options.server.start_timeout = spec.join_timeout;
  options.server.job = spec.job;
  options.server.tls = spec.tls;
  options.server.job_secret = spec.job_secret;
  options.timeout = spec.wait_timeout;
  options.replicas = kReplicas;
  return std::make_unique<ParameterServerStrategy>(options);
}

}  // namespace

std::unique_ptr<Strategy> make_session_strategy(const GroupSpec& spec) {
  return spec.parameters ? make_worker(spec) : make_mirrored(spec);
}

std::unique_ptr<Strategy> make_voters(GroupSpec spec) {
  if (!spec.parameters || spec.servers == 1) return nullptr;
  spec.devices = {"cpu:0"};
  return make_mirrored(spec);
}

}  // namespace strata::standalone
