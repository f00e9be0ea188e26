#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/export.h"

namespace strata::cluster {

/// What a resolver finds out. Parts that it cannot know are empty.
struct STRATA_API Resolution {
  ClusterSpec spec;                      ///< empty: no cluster, one process
  std::optional<std::string> task_type;  ///< this process's job
  std::optional<int> task_id;            ///< its index there
  std::string rpc_layer;                 ///< "grpc" and so on; carried along, not used
  /// "GPU" to how many are this task's; empty if the resolver does not know.
  std::map<std::string, int> num_accelerators;
  /// This task's part of the GPUs that it sees, as CUDA_VISIBLE_DEVICES names them; nullopt: all.
  std::optional<std::vector<std::string>> visible_gpus;
  /// TensorFlow 1's master for any task, if the resolver has one.
  std::optional<std::string> session_master;
  std::string source = "ClusterSpec";  ///< "TF_CONFIG" and so on, for messages

  /// This process; nullopt unless type and index are known, or the job has one task only.
  std::optional<TaskId> task() const;
};

/// Finds the cluster that this process belongs to, and its place there. Derive for another source
/// (the cloud's own interface, a file).
///
/// Nothing is kept: each call looks again. Threads: any, unless a derived class says otherwise.
/// Source: tf.distribute.cluster_resolver.ClusterResolver.
class STRATA_API ClusterResolver {
 public:
  virtual ~ClusterResolver() = default;
  ClusterResolver(const ClusterResolver&) = delete;
  ClusterResolver& operator=(const ClusterResolver&) = delete;

  /// Everything at once. @throws Error  kInvalidArgument: what the source says makes no sense;
  /// quotes it.
  Resolution resolve() const { return do_resolve(); }

  ClusterSpec cluster_spec() const { return resolve().spec; }
  std::optional<std::string> task_type() const { return resolve().task_type; }
  std::optional<int> task_id() const { return resolve().task_id; }
  std::string rpc_layer() const { return resolve().rpc_layer; }
  std::map<std::string, int> num_accelerators() const { return resolve().num_accelerators; }

  /// The address of a task (this one if left out), with `rpc_layer://` in front if there is one.
  /// Empty without a cluster. TensorFlow 1 programs hand it to a session.
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

/// The resolver for what started this process: TF_CONFIG, else mpirun, else srun, else MPI's PMI,
/// else a Kubernetes Job with STRATA_KUBERNETES_JOBS; nullptr if none of them did, or if it started
/// one process only. An sbatch script that calls the program without srun is one process.
STRATA_API std::unique_ptr<ClusterResolver> detect_cluster_resolver();

/// A cluster that can run, and this process's place in it.
struct Cluster {
  ClusterSpec spec;
  TaskId task;
  Resolution resolution;
};

/// `resolver`'s cluster, checked (`check_cluster`); nullopt: there is none, and this process works
/// alone.
/// @throws Error  kInvalidArgument: a cluster that cannot run, or nothing says which task this is.
STRATA_API std::optional<Cluster> resolve_cluster(const ClusterResolver& resolver);
/// The same with `detect_cluster_resolver()`.
STRATA_API std::optional<Cluster> resolve_cluster();

}  // namespace strata::cluster
