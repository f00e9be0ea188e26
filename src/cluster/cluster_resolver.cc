#include "strata/cluster/cluster_resolver.h"

#include "cluster/command_line_words.h"
#include "cluster/master_url.h"
#include "strata/cluster/launcher_resolvers.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"

namespace strata::cluster {

std::string with_rpc_layer(const std::string& rpc_layer, const std::string& address) {
  return rpc_layer.empty() ? address : str_cat(rpc_layer, "://", address);
}

std::optional<TaskId> Resolution::task() const {
  if (!task_type) return std::nullopt;
  if (task_id) return TaskId{*task_type, *task_id};
  const bool only =
      spec.has_job(*task_type) ? spec.num_tasks(*task_type) == 1 : *task_type == kEvaluator;
  return only ? std::optional(TaskId{*task_type, 0}) : std::nullopt;
}

std::string ClusterResolver::master(std::optional<std::string> task_type,
                                    std::optional<int> task_id) const {
  return do_master(resolve(), task_type, task_id);
}

std::string ClusterResolver::do_master(const Resolution& resolution,
                                       const std::optional<std::string>& task_type,
                                       const std::optional<int>& task_id) const {
  if (resolution.session_master) return *resolution.session_master;
  const auto type = task_type ? task_type : resolution.task_type;
  const auto id = task_id ? task_id : resolution.task_id;
  if (!type || !id) return "";
  return with_rpc_layer(resolution.rpc_layer, resolution.spec.task_address(*type, *id));
}

namespace {

// What srun and mpirun say of the same process, where one runs under the other.
bool srun_started(const Environment& environment) {
  const auto tasks = environment.get_number("SLURM_STEP_NUM_TASKS");
  if (tasks.value_or(1) < 2 || !environment.has("SLURM_PROCID")) return false;
  // mpiexec starts its own helpers with srun: then the step's ranks are the helpers'.
  const auto size = environment.get_number("PMI_SIZE");
  return !size || (size == tasks &&
                   environment.get_number("PMI_RANK") == environment.get_number("SLURM_PROCID"));
}

// By half of their variables as well: training alone should be no surprise, and the resolver names
// what is missing. WORLD_SIZE of one is one process.
bool torchrun_started(const Environment& environment) {
  const bool ranked = environment.has("RANK") || environment.has("MASTER_ADDR");
  if (ranked && environment.get_number("WORLD_SIZE").value_or(1) > 1) return true;
  if (environment.has("RANK") || environment.has("WORLD_SIZE")) return false;
  return environment.has("PET_NODE_RANK") && environment.get("PET_NNODES").value_or("1") != "1";
}

}  // namespace

std::unique_ptr<ClusterResolver> detect_cluster_resolver() {
  const Environment environment = Environment::of_process();
  if (environment.has("TF_CONFIG")) return std::make_unique<TfConfigResolver>();
  if (has_host_flags(command_line_words())) return std::make_unique<HostFlagsResolver>();
  if (environment.get_number("OMPI_COMM_WORLD_SIZE").value_or(1) > 1) {
    return std::make_unique<MpiResolver>();
  }
  if (srun_started(environment)) {
    if (environment.has("TF_NUM_PS") || environment.has("TF_NUM_WORKERS")) {
      return std::make_unique<TfSlurmResolver>();
    }
    return std::make_unique<SlurmResolver>();
  }
  if (environment.get_number("PMI_SIZE").value_or(1) > 1) return std::make_unique<MpiResolver>();
  if (torchrun_started(environment)) return std::make_unique<TorchrunResolver>();
  if (environment.has("STRATA_KUBERNETES_JOBS")) return std::make_unique<KubernetesResolver>();
  return nullptr;
}

std::optional<Cluster> resolve_cluster(const ClusterResolver& resolver) {
  Resolution resolution = resolver.resolve();
  if (resolution.spec.empty()) return std::nullopt;
  const auto task = resolution.task();
  if (!task) {
    STRATA_CHECK(resolution.task_type.has_value(), kInvalidArgument, "[cluster] ",
                 resolution.source, ": got ", resolution.spec.to_string(),
                 ", but nothing that names the task of this process; expected a task, "
                 "{\"type\": \"worker\", \"index\": 0} in TF_CONFIG");
    STRATA_CHECK(resolution.spec.has_job(*resolution.task_type), kInvalidArgument, "[cluster] ",
                 resolution.source, ": got task type \"", *resolution.task_type,
                 "\" without an index, which is no job of ", resolution.spec.to_string());
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("[cluster] ", resolution.source, ": got task type \"",
                        *resolution.task_type, "\" without an index; expected one from 0 to ",
                        resolution.spec.num_tasks(*resolution.task_type) - 1));
  }
  check_cluster(resolution.spec, *task, resolution.source);
  return Cluster{.spec = resolution.spec, .task = *task, .resolution = std::move(resolution)};
}

std::optional<Cluster> resolve_cluster() {
  const auto resolver = detect_cluster_resolver();
  return resolver ? resolve_cluster(*resolver) : std::nullopt;
}

}  // namespace strata::cluster
