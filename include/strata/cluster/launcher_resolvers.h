#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/cluster/resolvers.h"

namespace strata::cluster {

// Clusters as launchers of other systems describe them, for programs that are moved to strata.

struct TorchrunOptions {
  /// Default: one above MASTER_PORT, where the launcher itself may have something that listens.
  std::optional<int> port = {};
  std::optional<Environment> environment = {};  ///< default: the process's
};

/// A cluster with one worker for each process that torchrun or Kubeflow's PyTorchJob started: rank
/// RANK of WORLD_SIZE, rank 0 at MASTER_ADDR. A PyTorchJob's pod without torchrun has PET_NODE_RANK
/// and PET_NNODES instead, of one process a pod: they are read where RANK and WORLD_SIZE are not set,
/// with PET_MASTER_ADDR and PET_MASTER_PORT. These variables have no host but rank 0's:
/// the others let the system pick a port on the interface that leads to it (address `:0`), which rank
/// 0 then announces to all.
///
/// MASTER_PORT is torchrun's store, which the agent of node 0 keeps open as long as the job runs.
/// Rank 0 listens one port above it.
/// @throws Error (from `resolve`)  kInvalidArgument: a variable is missing, malformed, or does not
///     agree with another; names it.
/// Source: strata; the variables are documented for torchrun (PyTorch) and the Kubeflow training operator.
class STRATA_API TorchrunResolver final : public ClusterResolver {
 public:
  explicit TorchrunResolver(TorchrunOptions options = {});

 private:
  Resolution do_resolve() const override;

  TorchrunOptions options_;
};

struct HostFlagsOptions {
  /// The words behind the program's name, of which `--job_name`, `--task_index`, `--ps_hosts` and
  /// `--worker_hosts` are read and the rest is passed over. Default: the process's (/proc/self/cmdline).
  std::optional<std::vector<std::string>> arguments = {};
};

/// The cluster that a program's command line describes, as TensorFlow 1's distributed programs and
/// tf_cnn_benchmarks take it, `--name=value` or `--name value`, with one `-` or two:
///
///     train --job_name=worker --task_index=1 --worker_hosts=h1:2220,h2:2220 --ps_hosts=h1:2230
///
/// No `--job_name` (or an empty one) and no hosts: no cluster. Worker 0 is the chief.
/// @throws Error (from `resolve`)  kInvalidArgument: half of the flags, or one with a value that is
///     wrong; names it.
/// Source: tf_cnn_benchmarks' flags; its `controller` is not read.
class STRATA_API HostFlagsResolver final : public ClusterResolver {
 public:
  explicit HostFlagsResolver(HostFlagsOptions options = {});

 private:
  Resolution do_resolve() const override;

  HostFlagsOptions options_;
};

struct TfSlurmOptions {
  int worker_port = 2220;  ///< of a node's first worker; the next one listens one port higher
  int ps_port = 2230;      ///< of its first parameter server
  std::optional<Environment> environment = {};  ///< default: the process's
};

/// The cluster of a SLURM step by the variables of the launcher with which distributed TensorFlow
/// was measured on Piz Daint: TF_NUM_PS (default 1) and TF_NUM_WORKERS (the number of nodes),
/// TF_PS_PER_NODE and TF_WORKER_PER_NODE (1), and TF_PS_IN_WORKER (true): whether workers are on the
/// nodes of parameter servers, too, or on those behind them. Servers are on the first nodes of the
/// allocation, workers on the first ones (or behind), so many a node, and addresses are
/// `node:2230` and `node:2220` and up.
///
/// That launcher started each node's tasks from one script. Here the step has one task for
/// each: the tasks of a node are its parameter servers and then its workers, by SLURM_LOCALID. On each
/// node the step must have as many tasks as that (`srun --nodes=N --ntasks=P+W`
/// with a block distribution).
/// @throws Error (from `resolve`)  kInvalidArgument: not in a step, too few nodes, a node with
///     other tasks than these; names the variable.
/// Source: the launcher of "Distributed TensorFlow on Piz Daint" (CSCS).
class STRATA_API TfSlurmResolver final : public ClusterResolver {
 public:
  explicit TfSlurmResolver(TfSlurmOptions options = {});

 private:
  Resolution do_resolve() const override;

  TfSlurmOptions options_;
};

}  // namespace strata::cluster
