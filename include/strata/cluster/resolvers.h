#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/core/export.h"

namespace strata::cluster {

/// Environment variables as a value. Resolvers read them through this, so that a test (or a
/// launcher) can run them on other variables.
class STRATA_API Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables)
      : variables_(std::move(variables)) {}

  /// Copies the variables of this process. Threads: no thread may change them meanwhile (`setenv`).
  static Environment of_process();

  std::optional<std::string> get(std::string_view name) const;
  bool has(std::string_view name) const { return variables_.contains(name); }

  /// Returns a number from 0 up; nullopt if the variable is not set.
  /// @throws Error  kInvalidArgument: set to something else; names the variable.
  std::optional<int> get_number(std::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

struct SimpleOptions {
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::string rpc_layer = {};
  std::map<std::string, int> num_accelerators = {};
  std::string master = {};  ///< what `master()` returns if no task is named
};

/// A cluster that the program defines itself.
/// Source: tf.distribute.cluster_resolver.SimpleClusterResolver.
class STRATA_API SimpleResolver final : public ClusterResolver {
 public:
  explicit SimpleResolver(ClusterSpec spec, SimpleOptions options = {});

 private:
  Resolution do_resolve() const override;
  std::string do_master(const Resolution& resolution, const std::optional<std::string>& task_type,
                        const std::optional<int>& task_id) const override;

  ClusterSpec spec_;
  SimpleOptions options_;
};

struct UnionOptions {
  /// replaces the first resolver's; the others likewise
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::optional<std::string> rpc_layer = {};
};

/// Unites the jobs of several clusters. If several have the same job, its lists are concatenated;
/// if one of them is sparse, indices are kept, and no index may occur twice. Task, rpc layer,
/// accelerators and master are the first resolver's.
/// Source: tf.distribute.cluster_resolver.UnionResolver, which ignores a task_id of 0 given here.
class STRATA_API UnionResolver final : public ClusterResolver {
 public:
  /// @throws Error  kInvalidArgument: no resolver.
  explicit UnionResolver(std::vector<std::shared_ptr<const ClusterResolver>> resolvers,
                         UnionOptions options = {});

 private:
  Resolution do_resolve() const override;
  std::string do_master(const Resolution& resolution, const std::optional<std::string>& task_type,
                        const std::optional<int>& task_id) const override;

  std::vector<std::shared_ptr<const ClusterResolver>> resolvers_;
  UnionOptions options_;
};

struct TfConfigOptions {
  std::optional<std::string> task_type = {};  ///< replaces TF_CONFIG's task.type
  std::optional<int> task_id = {};            ///< replaces its task.index
  std::optional<std::string> rpc_layer = {};
  std::optional<Environment> environment = {};  ///< default: the process's
};

/// The cluster that the environment variable TF_CONFIG describes, as TensorFlow, Kubeflow and
/// cloud services write it:
///
///     {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index":
///     0}}
///
/// Not set, `{}` or without "cluster": no cluster. The index may be text ("0"), as some services
/// write it. Other members are ignored. Source:
/// tf.distribute.cluster_resolver.TFConfigClusterResolver; stricter: a member named twice, a type
/// that is no text or an index that is no number is an error.
class STRATA_API TfConfigResolver final : public ClusterResolver {
 public:
  explicit TfConfigResolver(TfConfigOptions options = {});

 private:
  Resolution do_resolve() const override;
  std::string do_master(const Resolution& resolution, const std::optional<std::string>& task_type,
                        const std::optional<int>& task_id) const override;

  TfConfigOptions options_;
};

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
  /// Default: all that a task sees if srun has divided them already; SLURM_GPUS_PER_TASK, where it
  /// was not to bind; else a node's GPUs in equal parts for its tasks.
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

struct MpiOptions {
  /// Rank 0's `host` or `host:port`, the same on all ranks. Default: STRATA_LEADER; else 127.0.0.1
  /// where every rank is on this host; else the first node of SLURM_JOB_NODELIST.
  std::optional<std::string> leader = {};
  int port_base = 8888;                         ///< port of rank 0, unless `leader` has one
  std::optional<Environment> environment = {};  ///< default: the process's
};

/// A cluster with one worker for each rank of `mpirun` or `mpiexec`. It does not use MPI itself: it
/// reads Open MPI's OMPI_COMM_WORLD_RANK and so on, else PMI_RANK and PMI_SIZE (MPICH, Intel MPI,
/// and srun). MPI's variables do not contain the hosts of ranks: rank 0's address is given, and the
/// others let the system pick a port on the interface that leads to it (address `:0`), which rank 0
/// then announces to all.
/// @throws Error (from `resolve`)  kInvalidArgument: no such variables, several hosts and no
/// leader.
class STRATA_API MpiResolver final : public ClusterResolver {
 public:
  explicit MpiResolver(MpiOptions options = {});

 private:
  Resolution do_resolve() const override;

  MpiOptions options_;
};

struct KubernetesOptions {
  /// Number of tasks by job. Default: STRATA_KUBERNETES_JOBS, `worker=4,ps=2`.
  std::optional<std::map<std::string, int>> jobs = {};
  /// The headless Service that gives the pods their names. Default: STRATA_KUBERNETES_SERVICE, else
  /// `name`, below.
  std::optional<std::string> service = {};
  /// Default: POD_NAMESPACE; without it the pod's own search path finds the others.
  std::optional<std::string> pod_namespace = {};
  int port = 8470;  ///< the same in every pod
  std::optional<Environment> environment = {};
};

/// A cluster of pods with stable names behind a headless Service: each job of the cluster is an
/// indexed Job (with JOB_COMPLETION_INDEX in its pods and `subdomain` set to the Service) or a
/// StatefulSet (the number at the end of the host name). Only the pod's environment is read; no
/// right to query Kubernetes is needed.
///
/// The Jobs are called `<name>-<job>`, as in `train-worker`; a cluster with one job may use any
/// name. Task 2 of `train-worker` is `train-worker-2.<service>[.<namespace>.svc]:<port>`.
/// @throws Error (from `resolve`)  kInvalidArgument: a variable is missing or malformed.
/// Source: strata; TensorFlow's resolver asks the API server, and does not find the process's own
/// task.
class STRATA_API KubernetesResolver final : public ClusterResolver {
 public:
  explicit KubernetesResolver(KubernetesOptions options = {});

 private:
  Resolution do_resolve() const override;

  KubernetesOptions options_;
};

}  // namespace strata::cluster
