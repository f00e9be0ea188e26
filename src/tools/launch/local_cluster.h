#pragma once

#include <string>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "tools/launch/gpu_shares.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/port_reservation.h"
#include "tools/launch/supervisor.h"

namespace strata::tools {

/// A cluster on this machine: addresses, environments, cores. Its ports are held as long as it
/// lives.
class LocalCluster {
 public:
  /// @param tls_folder  Where its certificates are; empty: none.
  /// @param gpus        Of this host, for the workers to share.
  /// @throws Error  kNotFound, kPermissionDenied: the program. kResourceExhausted: ports.
  explicit LocalCluster(const LaunchOptions& options, const std::string& tls_folder = {},
                        const std::vector<std::string>& gpus = visible_gpus());

  const cluster::ClusterSpec& spec() const { return spec_; }
  const std::vector<SupervisedTask>& tasks() const { return tasks_; }

  /// A line for a shell that does what starting `task` would: `TF_CONFIG='...' ./train`.
  static std::string shell_line(const SupervisedTask& task);

 private:
  PortReservation ports_;
  cluster::ClusterSpec spec_;
  std::vector<SupervisedTask> tasks_;
};

}  // namespace strata::tools
