#include "tools/study/study_strategy.h"

#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/strategies/one_device_strategy.h"
#include "strata/strategies/parameter_server_strategy.h"

namespace strata::tools {
namespace {

constexpr uint64_t kSeed = 1;

int workers_of(const std::optional<cluster::Cluster>& cluster) {
  if (!cluster || cluster->task.job == cluster::kPs) return 1;
  return cluster::worker_count(cluster->spec, cluster->task);
}

/// So many of this process: "cpu:0", "cpu:1".
std::vector<std::string> devices_of(const Configuration& configuration, int count) {
  if (configuration.device == "cpu") set_logical_devices("cpu", count);
  std::vector<std::string> devices;
  for (int i = 0; i < count; ++i) devices.push_back(str_cat(configuration.device, ":", i));
  return devices;
}

}  // namespace

bool is_cluster_task() { return cluster::resolve_cluster().has_value(); }

ps::PlacementOptions placement_options(StudyPlacement placement) {
  switch (placement) {
    case StudyPlacement::kGreedy:
      return {.strategy = ps::greedy};
    case StudyPlacement::kRoundRobin:
      return {.strategy = ps::round_robin};
    case StudyPlacement::kSharded:
      break;
  }
  return {};
}

std::unique_ptr<Strategy> make_strategy(const Configuration& configuration) {
  const std::optional<cluster::Cluster> cluster = cluster::resolve_cluster();
  const int workers = configuration.has_processes() ? workers_of(cluster) : 1;
  const int here =
      configuration.strategy == StudyStrategy::kIndependent ? 1 : configuration.replicas / workers;
  const std::vector<std::string> devices = devices_of(configuration, here);
  const ReplicaOptions replicas{.threads_per_replica = configuration.threads};
  switch (configuration.strategy) {
    case StudyStrategy::kMultiWorker:
      return std::make_unique<MultiWorkerMirroredStrategy>(
          MultiWorkerMirroredOptions{.devices = devices, .seed = kSeed, .replicas = replicas});
    case StudyStrategy::kParameterServer:
      return std::make_unique<ParameterServerStrategy>(ParameterServerStrategyOptions{
          .devices = devices,
          .seed = kSeed,
          .consistency = {.kind = configuration.synchronous ? ps::Consistency::kSynchronous
                                                            : ps::Consistency::kAsynchronous},
          .placement = placement_options(configuration.placement),
          .replicas = replicas});
    case StudyStrategy::kCentral:
      return std::make_unique<CentralStorageStrategy>(
          CentralStorageOptions{.compute_devices = devices, .seed = kSeed, .replicas = replicas});
    case StudyStrategy::kMirrored:
      return std::make_unique<MirroredStrategy>(
          MirroredOptions{.devices = devices, .seed = kSeed, .replicas = replicas});
    case StudyStrategy::kOneDevice:
    case StudyStrategy::kIndependent:
      break;
  }
  return std::make_unique<OneDeviceStrategy>(
      OneDeviceOptions{.device = devices[0], .seed = kSeed, .replicas = replicas});
}

Configuration fit_to_cluster(Configuration configuration, bool has_strategy, bool has_replicas) {
  const std::optional<cluster::Cluster> cluster = cluster::resolve_cluster();
  if (!cluster) return configuration;
  const int workers = static_cast<int>(cluster::training_tasks(cluster->spec).size());
  const int servers =
      cluster->spec.has_job(cluster::kPs) ? cluster->spec.num_tasks(cluster::kPs) : 0;
  if (!has_strategy) {
    configuration.strategy = servers > 0   ? StudyStrategy::kParameterServer
                             : workers > 1 ? StudyStrategy::kMultiWorker
                                           : StudyStrategy::kMirrored;
  }
  const std::string_view strategy = word_of(configuration.strategy);
  const bool serves = configuration.strategy == StudyStrategy::kParameterServer;
  STRATA_CHECK(serves == (servers > 0), kInvalidArgument, "[strata study] got --strategy ",
               strategy, " in a cluster with ", servers, " parameter servers; expected ",
               serves ? "some (strata launch --ps 1)" : "none, or --strategy parameter_server");
  STRATA_CHECK(configuration.has_processes() || workers == 1, kInvalidArgument,
               "[strata study] got --strategy ", strategy, " in a cluster of ", workers,
               " workers; expected multi_worker, or one worker");
  configuration.servers = servers;
  if (!has_replicas) configuration.replicas = workers;
  STRATA_CHECK(configuration.replicas % workers == 0, kInvalidArgument, "[strata study] got ",
               configuration.replicas, " replicas for ", workers,
               " workers; expected a multiple, as each has as many");
  return configuration;
}

}  // namespace strata::tools
