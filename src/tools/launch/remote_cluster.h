#pragma once

#include <string>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/supervisor.h"

namespace strata::tools {

/// A cluster on other hosts: each task is an ssh process here, which starts it there
/// (remote_script.h) and carries its output, its signals and its end.
///
/// Chief and workers fill the hosts' slots in the order of the list. Parameter servers are placed
/// on the hosts in turn, the evaluator on the last one; they take no slots.
class RemoteCluster {
 public:
  /// @param tls_folder  Where the tasks' certificates are here; empty: none.
  /// @throws Error  kNotFound: no ssh. kInvalidArgument: too few slots, ports that do not exist, an
  ///   environment that a shell cannot set. As FileSystem: the certificates.
  explicit RemoteCluster(const LaunchOptions& options, const std::string& tls_folder = {});

  const cluster::ClusterSpec& spec() const { return spec_; }
  const std::vector<SupervisedTask>& tasks() const { return tasks_; }

 private:
  cluster::ClusterSpec spec_;
  std::vector<SupervisedTask> tasks_;
};

/// What to do about the failure of a task that ssh started, where ssh's last lines tell; else "".
std::string explain_ssh(const SupervisedTask& task, const ChildEnd& end,
                        const std::vector<std::string>& last_lines);

}  // namespace strata::tools
