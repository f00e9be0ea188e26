#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/environment.h"

namespace strata::cluster {

/// Expands SLURM's short form of host names, in its order: `n[001-003,7],m5` is n001 n002 n003 n7
/// m5, and `r[1-2]n[1-2]` is r1n1 r1n2 r2n1 r2n2.
/// @throws Error  kInvalidArgument: quotes the part that is wrong.
STRATA_API std::vector<std::string> expand_host_list(std::string_view list);

/// Expands SLURM's short form of the numbers of tasks of each node: `2(x2),1` is 2 2 1.
/// @throws Error  kInvalidArgument: quotes the part that is wrong.
STRATA_API std::vector<int> expand_tasks_per_node(std::string_view list);

struct SlurmOptions {
  /// Number of tasks by job, in the order of the jobs' names: {{"ps", 1}, {"worker", 3}} makes rank
  /// 0 the ps. Default: as many workers as the step has tasks.
  std::optional<std::map<std::string, int>> jobs = {};
  int port_base = 8888;  ///< of a node's first task; the next one listens one port higher
  /// Default: what CUDA_VISIBLE_DEVICES lists, else SLURM_GPUS_ON_NODE, else 0.
  std::optional<int> gpus_per_node = {};
  /// Default: a node's GPUs in equal parts for its tasks; all that a task sees if srun has divided
  /// them already (SLURM_GPUS_PER_TASK).
  std::optional<int> gpus_per_task = {};
  std::optional<int> tasks_per_node = {};       ///< the same on every node; default: SLURM's own
  std::optional<Environment> environment = {};  ///< default: the process's
};

/// The cluster of a SLURM job step (`srun`): its variables first (SLURM_STEP_NODELIST,
/// SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NUM_TASKS), then the job's. Ranks are placed on the nodes
/// by SLURM_DISTRIBUTION, block or cyclic, in SLURM's order of the nodes.
/// @throws Error (from `resolve`)  kInvalidArgument: not in a step, more GPUs requested than
///     present, `jobs` do not add up to the tasks; names the variable.
/// Source: tf.distribute.cluster_resolver.SlurmClusterResolver, which sorts nodes by name as text
/// (n10 before n2), so that its ranks and addresses do not match; and which sets
/// CUDA_VISIBLE_DEVICES, where this class sets `visible_gpus`.
class STRATA_API SlurmResolver final : public ClusterResolver {
 public:
  explicit SlurmResolver(SlurmOptions options = {});

 private:
  Resolution do_resolve() const override;

  SlurmOptions options_;
};

}  // namespace strata::cluster
