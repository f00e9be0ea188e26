#include "strata/strategies/cluster_coordinator.h"

#include "cluster/wire_environment.h"
#include "ps/coordinator/coordinator.h"
#include "strata/cluster/roles.h"
#include "strata/cluster/tls_environment.h"
#include "strata/core/error.h"

namespace strata {
namespace {

cluster::Cluster resolve(const ClusterCoordinatorOptions& options, std::string_view call) {
  auto cluster = options.cluster_resolver == nullptr
                     ? cluster::resolve_cluster()
                     : cluster::resolve_cluster(*options.cluster_resolver);
  STRATA_CHECK(cluster.has_value(), kInvalidArgument, "[cluster_coordinator] ", call,
               ": got no cluster; expected TF_CONFIG, or a cluster_resolver, with a chief and "
               "workers (`strata launch` sets TF_CONFIG)");
  return *std::move(cluster);
}

// What the program leaves open, the environment says.
cluster::ServerOptions server_options(const ClusterCoordinatorOptions& options,
                                      const cluster::TaskId& task) {
  cluster::ServerOptions own = options.server;
  if (!own.tls) own.tls = cluster::tls_from_environment(task);
  if (!own.wire && !own.transport) own.wire = cluster::wire_from_environment();
  return own;
}

std::unique_ptr<ps::Coordinator> make(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                                      const ps::FunctionRegistry& registry,
                                      const ClusterCoordinatorOptions& options) {
  return std::make_unique<ps::Coordinator>(
      spec, task, registry,
      ps::CoordinatorOptions{.server = server_options(options, task),
                             .worker_timeout = options.worker_timeout,
                             .queue_size = options.queue_size,
                             .max_in_flight = options.max_in_flight});
}

std::unique_ptr<ps::Coordinator> make(const ps::FunctionRegistry& registry,
                                      const ClusterCoordinatorOptions& options) {
  const cluster::Cluster cluster = resolve(options, "ClusterCoordinator");
  STRATA_CHECK(cluster.task.job == cluster::kChief, kInvalidArgument,
               "[cluster_coordinator] ClusterCoordinator: got the task ", cluster.task.to_string(),
               "; expected the chief, which coordinates; workers call serve_worker");
  return make(cluster.spec, cluster.task, registry, options);
}

}  // namespace

bool serve_worker(const ps::FunctionRegistry& registry, const ClusterCoordinatorOptions& options) {
  const cluster::Cluster cluster = resolve(options, "serve_worker");
  if (cluster.task.job != cluster::kWorker) return false;
  ps::WorkerServer worker(cluster.spec, cluster.task, registry,
                          {.server = server_options(options, cluster.task),
                           .coordinator_timeout = options.coordinator_timeout,
                           .threads = options.worker_threads});
  worker.join();
  return true;
}

ClusterCoordinator::ClusterCoordinator(const ps::FunctionRegistry& registry,
                                       const ClusterCoordinatorOptions& options)
    : registry_(registry), coordinator_(make(registry, options)) {}

ClusterCoordinator::ClusterCoordinator(const cluster::ClusterSpec& spec,
                                       const cluster::TaskId& task,
                                       const ps::FunctionRegistry& registry,
                                       const ClusterCoordinatorOptions& options)
    : registry_(registry), coordinator_(make(spec, task, registry, options)) {}

ClusterCoordinator::~ClusterCoordinator() = default;

ps::RemoteValue<> ClusterCoordinator::schedule(std::string_view function,
                                               std::vector<Value> arguments,
                                               wire::Deadline deadline) {
  return coordinator_->schedule(function, std::move(arguments), deadline);
}

void ClusterCoordinator::join(wire::Deadline deadline) { coordinator_->join(deadline); }

bool ClusterCoordinator::done() { return coordinator_->done(); }

ps::Value ClusterCoordinator::fetch(const RemoteValue& value, wire::Deadline deadline) const {
  return coordinator_->fetch(value, deadline);
}

std::vector<ps::Value> ClusterCoordinator::fetch(const std::vector<RemoteValue>& values,
                                                 wire::Deadline deadline) const {
  return coordinator_->fetch(values, deadline);
}

ps::PerWorkerValues ClusterCoordinator::create_per_worker_dataset(std::string_view name,
                                                                  std::vector<Value> arguments) {
  STRATA_CHECK(registry_.find(name).entry.object == std::type_index(typeid(data::Iterator)),
               kInvalidArgument, "[cluster_coordinator] create_per_worker_dataset: got \"", name,
               "\", which is of no dataset; register it with register_dataset");
  return coordinator_->create_per_worker(name, std::move(arguments));
}

ps::PerWorkerValues ClusterCoordinator::create_per_worker_values(std::string_view name,
                                                                 std::vector<Value> arguments) {
  return coordinator_->create_per_worker(name, std::move(arguments));
}

int ClusterCoordinator::num_workers() const { return coordinator_->num_workers(); }

int ClusterCoordinator::num_ready_workers() const { return coordinator_->num_ready_workers(); }

void ClusterCoordinator::wait_for_workers(int count, wire::Deadline deadline) {
  coordinator_->wait_for_workers(count, deadline);
}

ps::CoordinatorCounts ClusterCoordinator::counts() const { return coordinator_->counts(); }

void ClusterCoordinator::shutdown(wire::Deadline deadline) { coordinator_->shutdown(deadline); }

}  // namespace strata
