#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/host_topology.h"
#include "strata/cluster/cluster_spec.h"
#include "tools/launch/gpu_shares.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/port_reservation.h"
#include "tools/launch/supervisor.h"

namespace strata::tools {

/// This process's CUDA_VISIBLE_DEVICES.
std::optional<std::string> visible_devices();

/// A cluster on this machine: addresses, environments, cores. Its ports are held as long as it
/// lives.
class LocalCluster {
 public:
  /// @param tls_folder  Where its certificates are; empty: none.
  /// @param host     With the GPUs for the workers to share, and the cores near them.
  /// @param visible  The launcher's own CUDA_VISIBLE_DEVICES, which chooses among them.
  /// @throws Error  kNotFound, kPermissionDenied: the program. kResourceExhausted: ports.
  ///   kInvalidArgument: too few GPUs for what was asked.
  explicit LocalCluster(const LaunchOptions& options, const std::string& tls_folder = {},
                        const HostTopology& host = HostTopology::read(),
                        const std::optional<std::string>& visible = visible_devices());

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
