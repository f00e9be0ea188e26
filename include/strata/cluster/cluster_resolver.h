#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/export.h"

namespace strata::cluster {

/// The result of a resolver. Parts that it cannot know are empty.
struct STRATA_API Resolution {
  ClusterSpec spec;                      ///< empty: no cluster, one process
  std::optional<std::string> task_type;  ///< this process's job
  std::optional<int> task_id;            ///< its index there
  std::string rpc_layer;                 ///< "grpc" and so on; passed through, not used
  /// The number of this task's accelerators by type ("GPU"); empty if the resolver does not know
  /// it.
  std::map<std::string, int> num_accelerators;
  /// The part of the visible GPUs that is this task's, as CUDA_VISIBLE_DEVICES names them; nullopt:
  /// all. A worker that names no devices takes these.
  std::optional<std::vector<std::string>> visible_gpus;
  /// TensorFlow 1's master for any task, if the resolver has one.
  std::optional<std::string> session_master;
  std::string source = "ClusterSpec";  ///< "TF_CONFIG" and so on, for messages

  /// This process's task; nullopt unless type and index are known, or the job has one task only.
  std::optional<TaskId> task() const;
};

/// Finds the cluster that this process belongs to, and its task. Derive for another source (a
/// cloud's own interface, a file).
///
/// Results are not cached: each call reads the source again. Threads: any, unless a derived class
/// documents otherwise.
/// Source: tf.distribute.cluster_resolver.ClusterResolver.
class STRATA_API ClusterResolver {
 public:
  virtual ~ClusterResolver() = default;
  ClusterResolver(const ClusterResolver&) = delete;
  ClusterResolver& operator=(const ClusterResolver&) = delete;

  /// Returns everything at once. @throws Error  kInvalidArgument: the source is malformed; quotes
  /// it.
  Resolution resolve() const { return do_resolve(); }

  ClusterSpec cluster_spec() const { return resolve().spec; }
  std::optional<std::string> task_type() const { return resolve().task_type; }
  std::optional<int> task_id() const { return resolve().task_id; }
  std::string rpc_layer() const { return resolve().rpc_layer; }
  std::map<std::string, int> num_accelerators() const { return resolve().num_accelerators; }

  /// Returns the address of a task (this one if left out), prefixed with `rpc_layer://` if there is
  /// one. It is empty without a cluster. TensorFlow 1 programs pass it to a session.
  std::string master(std::optional<std::string> task_type = {},
                     std::optional<int> task_id = {}) const;

 protected:
  ClusterResolver() = default;

 private:
  virtual Resolution do_resolve() const = 0;
  virtual std::string do_master(const Resolution& resolution,
                                const std::optional<std::string>& task_type,
                                const std::optional<int>& task_id) const;
};

/// Returns the resolver for the launcher of this process: TF_CONFIG, else the flags --worker_hosts and
/// so on (launcher_resolvers.h), else mpirun, else srun (with TF_NUM_PS or TF_NUM_WORKERS as
/// TfSlurmResolver has it), else MPI's PMI, else torchrun or a PyTorchJob, else a Kubernetes Job with
/// STRATA_KUBERNETES_JOBS; nullptr if it was none of them, or if it started one process only. An sbatch script that calls the program without srun is one
/// process.
STRATA_API std::unique_ptr<ClusterResolver> detect_cluster_resolver();

/// A cluster that can run, and the task of this process in it.
struct Cluster {
  ClusterSpec spec;
  TaskId task;
  Resolution resolution;
};

/// Resolves and checks a cluster (`check_cluster`); nullopt: there is no cluster, and this process
/// works alone.
/// @throws Error  kInvalidArgument: the cluster cannot run, or the source does not name this task.
STRATA_API std::optional<Cluster> resolve_cluster(const ClusterResolver& resolver);
/// Does the same with `detect_cluster_resolver()`.
STRATA_API std::optional<Cluster> resolve_cluster();

}  // namespace strata::cluster
