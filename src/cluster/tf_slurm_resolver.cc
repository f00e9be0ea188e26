#include <algorithm>

#include "cluster/most_tasks.h"
#include "strata/cluster/launcher_resolvers.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

// Tasks first, first + 1, ... of a job on a node.
struct Share {
  int first = 0;
  int count = 0;
};

Share share_of(int node, int per_node, int total) {
  const int64_t first = std::min<int64_t>(int64_t{node} * per_node, total);
  const int64_t end = std::min<int64_t>(first + per_node, total);
  return {.first = static_cast<int>(first), .count = node < 0 ? 0 : static_cast<int>(end - first)};
}

int nodes_for(int tasks, int per_node) { return (tasks + per_node - 1) / per_node; }

bool yes_or_no(const Environment& environment, const char* name) {
  const std::string text = environment.get(name).value_or("true");
  const bool yes = text == "true" || text == "1";
  STRATA_CHECK(yes || text == "false" || text == "0", kInvalidArgument, "[cluster] SLURM: got ",
               name, "=", text, "; expected true or false");
  return yes;
}

int at_least(const Environment& environment, const char* name, int otherwise, int least) {
  const int number = environment.get_number(name).value_or(otherwise);
  STRATA_CHECK(number >= least && number <= kMostTasks, kInvalidArgument, "[cluster] SLURM: got ",
               name, "=", number, "; expected a number from ", least, " to ", kMostTasks);
  return number;
}

std::string either(const Environment& environment, const char* step, const char* job) {
  const auto value = environment.has(step) ? environment.get(step) : environment.get(job);
  STRATA_CHECK(value.has_value(), kInvalidArgument,
               "[cluster] SLURM: got TF_NUM_PS or "
               "TF_NUM_WORKERS, but neither ",
               step, " nor ", job, "; not in a SLURM step? Start the program with srun");
  return *value;
}

int place(const Environment& environment, const char* name) {
  const auto number = environment.get_number(name);
  STRATA_CHECK(number.has_value(), kInvalidArgument,
               "[cluster] SLURM: got TF_NUM_PS or "
               "TF_NUM_WORKERS, but no ",
               name, "; not in a SLURM step? Start the program with srun");
  return *number;
}

}  // namespace

TfSlurmResolver::TfSlurmResolver(TfSlurmOptions options) : options_(std::move(options)) {}

Resolution TfSlurmResolver::do_resolve() const {
  const Environment environment =
      options_.environment ? *options_.environment : Environment::of_process();
  const auto hosts =
      expand_host_list(either(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"));
  const auto tasks = expand_tasks_per_node(
      either(environment, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"));
  const int nodes = static_cast<int>(hosts.size());
  const int servers = at_least(environment, "TF_NUM_PS", 1, 0);
  const int servers_a_node = at_least(environment, "TF_PS_PER_NODE", 1, 1);
  const int workers_a_node = at_least(environment, "TF_WORKER_PER_NODE", 1, 1);
  const int behind =
      yes_or_no(environment, "TF_PS_IN_WORKER") ? 0 : nodes_for(servers, servers_a_node);
  const int workers = at_least(environment, "TF_NUM_WORKERS", std::max(nodes - behind, 1), 1);
  const int needed =
      std::max(nodes_for(servers, servers_a_node), behind + nodes_for(workers, workers_a_node));
  STRATA_CHECK(needed == nodes && tasks.size() == hosts.size(), kInvalidArgument,
               "[cluster] SLURM: got ", nodes, " nodes for ", servers,
               " parameter servers (TF_NUM_PS), ", servers_a_node, " a node (TF_PS_PER_NODE), and ",
               workers, " workers (TF_NUM_WORKERS), ", workers_a_node,
               " a node (TF_WORKER_PER_NODE), ", behind == 0 ? "on the same" : "on other",
               " nodes (TF_PS_IN_WORKER); expected ", needed, " nodes");
  Resolution resolution;
  resolution.source = "SLURM";
  resolution.rpc_layer = "grpc";
  const int node = place(environment, "SLURM_NODEID");
  const int local = place(environment, "SLURM_LOCALID");
  std::map<std::string, std::vector<std::string>> spec;
  for (int i = 0; i < nodes; ++i) {
    const Share ps = share_of(i, servers_a_node, servers);
    const Share worker = share_of(i - behind, workers_a_node, workers);
    const auto at = static_cast<size_t>(i);
    STRATA_CHECK(tasks[at] == ps.count + worker.count, kInvalidArgument, "[cluster] SLURM: got ",
                 tasks[at], " tasks on ", hosts[at], "; expected ", ps.count,
                 " parameter servers and ", worker.count,
                 " workers there, from TF_NUM_PS, TF_NUM_WORKERS and the numbers a node: set "
                 "srun --ntasks-per-node, or --distribution=arbitrary where nodes differ");
    for (int j = 0; j < ps.count; ++j) {
      spec["ps"].push_back(str_cat(hosts[at], ":", options_.ps_port + j));
    }
    for (int j = 0; j < worker.count; ++j) {
      spec["worker"].push_back(str_cat(hosts[at], ":", options_.worker_port + j));
    }
    if (i != node) continue;
    STRATA_CHECK(local < tasks[at], kInvalidArgument, "[cluster] SLURM: got SLURM_LOCALID=", local,
                 " on a node with ", tasks[at], " tasks; the variables are of different steps");
    const bool serves = local < ps.count;
    resolution.task_type = serves ? "ps" : "worker";
    resolution.task_id = serves ? ps.first + local : worker.first + local - ps.count;
  }
  STRATA_CHECK(resolution.task_type.has_value(), kInvalidArgument,
               "[cluster] SLURM: got SLURM_NODEID=", node, ", but the step has ", nodes,
               " nodes; the variables are of different steps");
  resolution.spec = ClusterSpec(spec);
  return resolution;
}

}  // namespace strata::cluster
