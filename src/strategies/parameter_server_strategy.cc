#include "strata/strategies/parameter_server_strategy.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "cluster/wire_environment.h"
#include "ps/tables/client.h"
#include "ps/tables/parameter_server.h"
#include "runtime/replica_group.h"
#include "strata/cluster/roles.h"
#include "strata/cluster/tls_environment.h"
#include "strata/core/log.h"
#include "strata/runtime/cross_device_ops.h"
#include "strategies/default_seed.h"
#include "strategies/find_devices.h"
#include "strategies/remote_placement.h"
#include "strategies/server_store.h"
#include "strategies/standalone/connect_client.h"

namespace strata {
namespace {

constexpr auto kServerStrategyName = "parameter_server_strategy";

std::optional<cluster::Cluster> find_cluster(
    const std::shared_ptr<const cluster::ClusterResolver>& resolver) {
  return resolver ? cluster::resolve_cluster(*resolver) : cluster::resolve_cluster();
}

cluster::ServerOptions with_environment(cluster::ServerOptions options,
                                        const cluster::TaskId& task) {
  if (!options.tls) options.tls = cluster::tls_from_environment(task);
  if (!options.wire && !options.transport) options.wire = cluster::wire_from_environment();
  return options;
}

/// What a standalone client's servers are told.
standalone::ParametersSpec parameters_of(const ParameterServerStrategyOptions& options) {
  STRATA_CHECK(!options.placement.strategy && !options.placement.partitioner, kUnimplemented, "[",
               kServerStrategyName,
               "] got rules of placement and client='standalone', whose servers place variables by "
               "equal bytes; leave `placement` out");
  return {.consistency = options.consistency.kind,
          .staleness = options.consistency.staleness,
          .backup_workers = options.consistency.backups,
          .precision = options.push_precision,
          .backup = options.backup,
          .pull_ahead = options.pull_ahead};
}

}  // namespace

struct ParameterServerStrategy::Joined {
  ReplicaGroupOptions group;
  std::shared_ptr<standalone::StandaloneClient> remote;  // of a standalone client; else null
  std::shared_ptr<ps::Client> client;
  bool backup = false;

  static Joined make(const ParameterServerStrategyOptions& options);
};

ParameterServerStrategy::Joined ParameterServerStrategy::Joined::make(
    const ParameterServerStrategyOptions& options) {
  STRATA_CHECK(
      !options.pull_ahead || options.consistency.kind == ps::Consistency::kAsynchronous,
      kInvalidArgument,
      "[parameter_server_strategy] got pull_ahead with workers that wait for each other; expected "
      "Consistency::kAsynchronous: a step would compute with older values than the others' bound");
  Joined joined;
  ReplicaGroupOptions& group = joined.group;
  group.name = kServerStrategyName;
  group.seed = options.seed.value_or(detail::default_seed());
  group.replicas = options.replicas;
  if (options.client == ClientMode::kStandalone) {
    group.timeout = std::chrono::ceil<std::chrono::milliseconds>(options.timeout);
  }
  joined.remote = standalone::connect_client(
      group, options.client, options.standalone, options.devices,
      options.client == ClientMode::kStandalone ? std::optional(parameters_of(options))
                                                : std::nullopt);
  if (joined.remote) {
    joined.backup = options.backup;
    return joined;
  }
  group.devices = detail::find_devices(kServerStrategyName, options.devices);
  group.cross_device_ops = choose_cross_device_ops(group.devices);

  const std::optional<cluster::Cluster> cluster = find_cluster(options.cluster_resolver);
  if (!cluster || !cluster->spec.has_job(cluster::kPs)) {
    STRATA_LOG(kWarning)
        << "[" << kServerStrategyName << "] found no parameter servers ("
        << (cluster ? cluster->spec.to_string() : "no cluster")
        << "): this process trains alone, with variables of its own; start it with "
           "for example strata launch -n 2 --ps 1";
    return joined;
  }
  if (cluster->task.job == cluster::kEvaluator) return joined;
  STRATA_CHECK(cluster->task.job != cluster::kPs, kFailedPrecondition, "[", kServerStrategyName,
               "] this process is ", cluster->task.to_string(),
               ", a parameter server, and trains nothing: call run_parameter_server() before, and "
               "end the program if it returns true");
  const Workers workers{.count = cluster::worker_count(cluster->spec, cluster->task),
                        .index = cluster::id_in_cluster(cluster->spec, cluster->task)};
  group.seed += static_cast<uint64_t>(workers.index);
  joined.client = std::make_shared<ps::Client>(
      cluster->spec, cluster->task,
      ps::ClientOptions{.server = with_environment(options.server, cluster->task),
                        .timeout = options.timeout,
                        .share_memory = options.share_memory});
  ps::ConsistencyOptions consistency = options.consistency;
  consistency.workers = workers.count;
  const auto store = std::make_shared<detail::ServerStore>(
      joined.client, detail::ServerStore::Options{.consistency = consistency,
                                                  .precision = options.push_precision,
                                                  .placement = options.placement,
                                                  .backup = options.backup,
                                                  .chief = workers.index == 0,
                                                  .pull_ahead = options.pull_ahead});
  group.placement = std::make_shared<detail::RemotePlacement>(store, workers);
  joined.backup = options.backup;
  return joined;
}

ParameterServerStrategy::ParameterServerStrategy(const ParameterServerStrategyOptions& options)
    : ParameterServerStrategy(Joined::make(options)) {}

ParameterServerStrategy::ParameterServerStrategy(Joined joined)
    : Strategy(std::move(joined.group)),
      ClientSession(std::move(joined.remote), group()),
      client_(std::move(joined.client)),
      backup_(joined.backup),
      exceptions_(std::uncaught_exceptions()) {}

ParameterServerStrategy::~ParameterServerStrategy() {
  if (!client_) return;
  // A chief that an error ends is started again, and wants the servers that are left.
  const bool in_order = std::uncaught_exceptions() == exceptions_;
  try {
    client_->leave(/*job_done=*/is_chief() && in_order);
  } catch (const Error& error) {  // then the servers take this worker for lost
    STRATA_LOG(kWarning) << error.what();
  }
}

void ParameterServerStrategy::do_refresh() { fetch(); }

int ParameterServerStrategy::num_workers() const {
  return std::max(group().workers().count, ClientSession::num_servers());
}
int ParameterServerStrategy::worker() const { return group().workers().index; }
int ParameterServerStrategy::num_servers() const {
  return client_ ? client_->num_servers() : num_parameter_servers();
}

bool run_parameter_server(const RunParameterServerOptions& options) {
  const std::optional<cluster::Cluster> cluster = find_cluster(options.cluster_resolver);
  if (!cluster || cluster->task.job != cluster::kPs) return false;
  ps::ParameterServer server(
      cluster->spec, cluster->task,
      {.server = with_environment(options.server, cluster->task), .limits = options.limits});
  server.join();
  return true;
}

}  // namespace strata
