#include "strata/cluster/resolvers.h"

#include <algorithm>
#include <numeric>

#include "cluster/most_tasks.h"
#include "core/host_topology.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

struct Place {
  size_t node;
  int local;  // among the tasks of its node
};

// A variable of the step, or else the job's: srun inside of an allocation narrows what there is.
std::string step_or_job(const Environment& environment, std::string_view step,
                        std::string_view job) {
  const auto value = environment.has(step) ? environment.get(step) : environment.get(job);
  STRATA_CHECK(value.has_value(), kInvalidArgument, "[cluster] SLURM: got neither ", step, " nor ",
               job, "; not in a SLURM step? Start the program with srun");
  return *value;
}

std::vector<Place> block(const std::vector<int>& tasks, int chunk) {
  std::vector<Place> places;
  std::vector<int> used(tasks.size());
  std::vector<size_t> left(tasks.size());  // nodes with tasks that have no place yet
  std::iota(left.begin(), left.end(), size_t{0});
  while (!left.empty()) {
    for (const size_t node : left) {
      for (int i = 0; i < chunk && used[node] < tasks[node]; ++i) {
        places.push_back({node, used[node]++});
      }
    }
    std::erase_if(left, [&](size_t node) { return used[node] >= tasks[node]; });
  }
  return places;
}

// Where each rank is. SLURM_DISTRIBUTION is "block", "cyclic", "plane", or one of them with what
// happens inside of a node behind it ("block:cyclic", "block,Pack").
std::vector<Place> places_of(const Environment& environment, const std::vector<int>& tasks) {
  const std::string distribution = environment.get("SLURM_DISTRIBUTION").value_or("block");
  const std::string nodes = distribution.substr(0, distribution.find_first_of(":,"));
  if (nodes == "cyclic") return block(tasks, 1);
  if (nodes == "plane") {
    const int size = environment.get_number("SLURM_DIST_PLANESIZE").value_or(0);
    STRATA_CHECK(size > 0, kInvalidArgument,
                 "[cluster] SLURM: got SLURM_DISTRIBUTION=plane without SLURM_DIST_PLANESIZE");
    return block(tasks, size);
  }
  STRATA_CHECK(nodes == "block" || nodes.empty() || nodes == "unknown", kInvalidArgument,
               "[cluster] SLURM: got SLURM_DISTRIBUTION=\"", distribution,
               "\"; expected block, cyclic or plane: pass srun --distribution=block");
  return block(tasks, INT32_MAX);
}

void check_place(const Environment& environment, int rank, const Place& place) {
  const auto node = environment.get_number("SLURM_NODEID");
  const auto local = environment.get_number("SLURM_LOCALID");
  if (!node || !local) return;
  STRATA_CHECK(static_cast<size_t>(*node) == place.node && *local == place.local, kInvalidArgument,
               "[cluster] SLURM: got SLURM_PROCID=", rank, " with SLURM_NODEID=", *node,
               " and SLURM_LOCALID=", *local, "; expected node ", place.node, " and local task ",
               place.local,
               " from the numbers of tasks a node: the variables are of different steps, or tasks "
               "do not match SLURM_DISTRIBUTION; pass srun --distribution=block");
}

struct Gpus {
  int per_node;
  int per_task;
  std::optional<std::vector<std::string>> visible;
};

// What srun --gpus-per-task asked for, "2" or "h100:2"; nullopt: nothing, or what this does not read.
std::optional<int> gpus_per_task(const Environment& environment) {
  const std::string text = environment.get("SLURM_GPUS_PER_TASK").value_or("");
  const std::string number = text.substr(text.rfind(':') + 1);
  constexpr size_t kMostDigits = 5;
  if (number.empty() || number.size() > kMostDigits ||
      number.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoi(number);
}

Gpus gpus_of(const SlurmOptions& options, const Environment& environment, int most_tasks,
             int local) {
  std::vector<std::string> seen;
  if (const auto list = environment.get("CUDA_VISIBLE_DEVICES"))
    seen = parse_visible_devices(*list);
  const int seen_count = static_cast<int>(seen.size());
  const int on_node = environment.get_number("SLURM_GPUS_ON_NODE").value_or(0);
  // srun divides them by itself, unless it was told not to bind (--gpu-bind=none).
  const std::optional<int> asked = gpus_per_task(environment);
  const bool divided = environment.has("SLURM_GPUS_PER_TASK")
                           ? !asked || seen_count <= *asked
                           : !seen.empty() && seen_count < on_node;
  if (divided && !options.gpus_per_node && !options.gpus_per_task) {
    return {.per_node = on_node, .per_task = seen_count, .visible = std::nullopt};
  }
  Gpus gpus = {};
  gpus.per_node = options.gpus_per_node.value_or(seen.empty() ? on_node : seen_count);
  gpus.per_task = options.gpus_per_task.value_or(asked.value_or(gpus.per_node / most_tasks));
  STRATA_CHECK(gpus.per_node >= 0 && gpus.per_task >= 0 &&
                   int64_t{gpus.per_task} * most_tasks <= gpus.per_node,
               kInvalidArgument, "[cluster] SLURM: got ", gpus.per_task, " GPUs a task for ",
               most_tasks, " tasks on a node with ", gpus.per_node,
               " GPUs; ask for fewer a task (gpus_per_task) or start fewer tasks a node");
  STRATA_CHECK(gpus.per_node <= kMostTasks, kInvalidArgument, "[cluster] SLURM: got ",
               gpus.per_node, " GPUs on a node; expected at most ", kMostTasks);
  if (gpus.per_node == 0) return gpus;
  gpus.visible.emplace();
  for (int i = local * gpus.per_task; i < (local + 1) * gpus.per_task; ++i) {
    const auto at = static_cast<size_t>(i);
    gpus.visible->push_back(at < seen.size() ? seen[at] : std::to_string(i));
  }
  return gpus;
}

}  // namespace

SlurmResolver::SlurmResolver(SlurmOptions options) : options_(std::move(options)) {}

Resolution SlurmResolver::do_resolve() const {
  const Environment environment =
      options_.environment ? *options_.environment : Environment::of_process();
  const auto rank = environment.get_number("SLURM_PROCID");
  STRATA_CHECK(rank.has_value(), kInvalidArgument,
               "[cluster] SLURM: got no SLURM_PROCID; not in a SLURM step? Start the program with "
               "srun");
  const auto hosts =
      expand_host_list(step_or_job(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"));
  const auto tasks = options_.tasks_per_node
                         ? std::vector<int>(hosts.size(), *options_.tasks_per_node)
                         : expand_tasks_per_node(step_or_job(
                               environment, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"));
  STRATA_CHECK(tasks.size() == hosts.size(), kInvalidArgument, "[cluster] SLURM: got ",
               hosts.size(), " nodes and numbers of tasks for ", tasks.size(),
               " of them; the variables are of different steps");
  const int64_t sum = std::accumulate(tasks.begin(), tasks.end(), int64_t{0});
  STRATA_CHECK(sum <= kMostTasks, kInvalidArgument, "[cluster] SLURM: got ", sum,
               " tasks; expected at most ", kMostTasks);
  const int total = static_cast<int>(sum);
  const auto jobs = options_.jobs.value_or(std::map<std::string, int>{{"worker", total}});
  int wanted = 0;
  for (const auto& job : jobs) wanted += job.second;
  STRATA_CHECK(wanted == total && total > 0, kInvalidArgument, "[cluster] SLURM: got jobs for ",
               wanted, " tasks, but the step has ", total,
               "; start it with srun --ntasks=", wanted);
  STRATA_CHECK(*rank < total, kInvalidArgument, "[cluster] SLURM: got SLURM_PROCID=", *rank,
               ", but the step has ", total, " tasks; the variables are of different steps");

  const auto places = places_of(environment, tasks);
  const Place& own = places[static_cast<size_t>(*rank)];
  if (!options_.tasks_per_node) check_place(environment, *rank, own);

  Resolution resolution;
  resolution.source = "SLURM";
  resolution.rpc_layer = "grpc";
  std::map<std::string, std::vector<std::string>> spec;
  int next = 0;
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i, ++next) {
      const Place& place = places[static_cast<size_t>(next)];
      spec[job].push_back(str_cat(hosts[place.node], ":", options_.port_base + place.local));
      if (next != *rank) continue;
      resolution.task_type = job;
      resolution.task_id = i;
    }
  }
  resolution.spec = ClusterSpec(spec);
  const Gpus gpus =
      gpus_of(options_, environment, *std::max_element(tasks.begin(), tasks.end()), own.local);
  resolution.num_accelerators["GPU"] = gpus.per_task;
  resolution.visible_gpus = gpus.visible;
  return resolution;
}

}  // namespace strata::cluster
