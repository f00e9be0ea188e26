#include "tools/launch/local_cluster.h"

#include <algorithm>
#include <cstdlib>

#include "cluster/cpu_partition.h"
#include "core/join.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "tools/launch/tf_config.h"
#include "tools/shell_quote.h"

namespace strata::tools {
namespace {

using cluster::TaskId;

constexpr auto kVisibleGpus = "CUDA_VISIBLE_DEVICES";

bool listens(const TaskId& task) { return task.job != cluster::kEvaluator; }

cluster::ClusterSpec make_spec(const std::vector<TaskId>& tasks, const PortReservation& ports) {
  std::map<std::string, std::vector<std::string>> jobs;
  size_t next = 0;
  for (const TaskId& task : tasks) {
    if (listens(task)) jobs[task.job].push_back(str_cat("127.0.0.1:", ports[next++]));
  }
  return cluster::ClusterSpec(jobs);
}

}  // namespace

std::optional<std::string> visible_devices() {
  const char* const listed = std::getenv(kVisibleGpus);  // NOLINT(concurrency-mt-unsafe)
  return listed != nullptr ? std::optional<std::string>(listed) : std::nullopt;
}

LocalCluster::LocalCluster(const LaunchOptions& options, const std::string& tls_folder,
                           const HostTopology& host, const std::optional<std::string>& visible)
    : ports_(options.workers + options.ps), spec_(make_spec(options.tasks(), ports_)) {
  const std::string program = find_program(options.command.front());
  const auto gpus = share_gpus(visible_gpus(host, visible), options.workers, options.gpus);
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const bool has_order = std::getenv("CUDA_DEVICE_ORDER") != nullptr;
  const bool given = options.environment.contains(kVisibleGpus);  // to all of them
  std::vector<std::vector<int>> near;
  for (const auto& share : gpus) {
    near.push_back(share && !given ? cores_near(host, *share) : std::vector<int>{});
  }
  std::vector<std::vector<int>> cores(static_cast<size_t>(options.workers));
  if (options.pin) cores = cluster::share_cores(cluster::cores_by_place(), options.workers, near);
  size_t worker = 0;
  for (const TaskId& task : options.tasks()) {
    SupervisedTask& each = tasks_.emplace_back();
    each.name = task.short_name();
    each.serves = task.job == cluster::kPs || task.job == cluster::kEvaluator;
    each.leads = task == cluster::leader(spec_);
    each.child.program = program;
    each.child.arguments.assign(options.command.begin() + 1, options.command.end());
    each.child.environment = options.environment;
    each.child.environment["TF_CONFIG"] = tf_config(spec_, task);
    if (!tls_folder.empty()) each.child.environment["STRATA_TLS_DIR"] = tls_folder;
    if (each.serves) continue;
    if (gpus[worker] && !given) {
      each.child.environment[kVisibleGpus] = join(*gpus[worker], {}, ",");
      // Our numbers are in the bus's order, as nvidia-smi's are; CUDA's own would be the fastest first.
      if (!visible && !has_order) each.child.environment.emplace("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    if (options.gpus.shared) each.child.environment.emplace("STRATA_SHARED_GPUS", "allow");
    each.child.cores = cores[worker++];
  }
}

std::string LocalCluster::shell_line(const SupervisedTask& task) {
  std::string line;
  for (const auto& [name, value] : task.child.environment) {
    line += str_cat(name, "=", shell_quoted(value), " ");
  }
  if (!task.child.cores.empty()) {
    line += str_cat("taskset --cpu-list ", join(task.child.cores, {}, ","), " ");
  }
  line += shell_quoted(task.child.program);
  for (const std::string& argument : task.child.arguments) line += " " + shell_quoted(argument);
  return line;
}

}  // namespace strata::tools
