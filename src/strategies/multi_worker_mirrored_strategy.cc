#include "strata/strategies/multi_worker_mirrored_strategy.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "strata/cluster/roles.h"
#include "strata/core/join.h"
#include "strata/runtime/cross_device_ops.h"
#include "strategies/default_seed.h"
#include "strategies/find_devices.h"
#include "strategies/worker_group.h"

namespace strata {

struct MultiWorkerMirroredStrategy::Joined {
  ReplicaGroupOptions group;
  std::shared_ptr<cluster::Server> server;

  static Joined make(const MultiWorkerMirroredOptions& options);
};

namespace {

bool spans_hosts(const collective::Placement& placement) {
  return std::ranges::any_of(placement.host_of_rank,
                             [&](int host) { return host != placement.host_of_rank[0]; });
}

}  // namespace

MultiWorkerMirroredStrategy::Joined MultiWorkerMirroredStrategy::Joined::make(
    const MultiWorkerMirroredOptions& options) {
  Joined joined;
  ReplicaGroupOptions& group = joined.group;
  group.name = "multi_worker_mirrored_strategy";
  group.devices = detail::find_devices(group.name, options.devices);
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.communication_options.timeout;
  group.bytes_per_pack = options.communication_options.bytes_per_pack;
  group.permits = options.permits;
  group.threads_per_replica = options.threads_per_replica;
  group.share_storage = options.share_storage;
  group.pin_threads = options.pin_threads;

  const std::optional<cluster::Cluster> cluster =
      options.cluster_resolver ? cluster::resolve_cluster(*options.cluster_resolver)
                               : cluster::resolve_cluster();
  const bool alone = !cluster || cluster->task.job == cluster::kEvaluator ||
                     cluster::training_tasks(cluster->spec).size() == 1;
  if (alone) {
    group.cross_device_ops = choose_cross_device_ops(group.devices);
    return joined;
  }
  STRATA_CHECK(cluster->task.job != cluster::kPs, kInvalidArgument, "[", group.name,
               "] this process is ", cluster->task.to_string(),
               ", a parameter server; expected a chief or worker: this strategy has no use for "
               "parameter servers");
  const auto replicas = static_cast<int>(group.devices.size());
  const int threads = group.threads_per_replica > 0 ? group.threads_per_replica
                                                    : std::max(1, num_cores() / replicas);
  detail::WorkerGroup workers =
      detail::join_workers(*cluster, options.server, options.communication_options, replicas,
                           {.seed = group.seed, .threads_per_replica = threads});
  group.communicator = std::move(workers.communicator);
  group.overlap =
      options.communication_options.overlap.value_or(spans_hosts(group.communicator->placement()));
  group.seed = workers.common.seed;
  group.threads_per_replica = workers.common.threads_per_replica;
  joined.server = std::move(workers.server);
  return joined;
}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const MultiWorkerMirroredOptions& options)
    : MultiWorkerMirroredStrategy(Joined::make(options)) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(Joined joined)
    : Strategy(std::move(joined.group)), server_(std::move(joined.server)) {}

MultiWorkerMirroredStrategy::~MultiWorkerMirroredStrategy() {
  if (server_ == nullptr) return;
  if (std::uncaught_exceptions() > 0) {
    server_->abort(str_cat(server_->task().to_string(), " ended with an error"));
    return;
  }
  server_->shutdown(wire::Deadline::after(group().options().timeout));
}

int MultiWorkerMirroredStrategy::num_workers() const {
  return group().communicator() ? group().communicator()->num_ranks() : 1;
}

int MultiWorkerMirroredStrategy::worker() const {
  return group().communicator() ? group().communicator()->rank() : 0;
}

std::string MultiWorkerMirroredStrategy::describe() const {
  const collective::Communicator* const communicator = group().communicator();
  if (communicator == nullptr) return str_cat("1 worker, ", num_replicas_in_sync(), " replicas\n");
  std::string text = str_cat(num_workers(), " workers, ", num_replicas_in_sync(), " replicas, ",
                             communicator->describe(), "\n");
  const std::vector<cluster::TaskId> tasks = cluster::training_tasks(server_->spec());
  for (int rank = 0; rank < num_workers(); ++rank) {
    const std::vector<int> replicas = communicator->placement().replicas_of(rank);
    text += str_cat("  ", tasks[static_cast<size_t>(rank)].short_name(), ": replicas ",
                    join(replicas, [](int id) { return std::to_string(id); }),
                    rank == worker() ? " (this process)" : "", "\n");
  }
  return text;
}

}  // namespace strata
