#pragma once

#include <string>

#include "tools/launch/launch_options.h"
#include "tools/launch/orphan_reaper.h"

namespace strata::tools {

/// How a cluster ended.
struct ClusterEnd {
  int status = 0;      ///< as Supervisor::run
  int stopped_by = 0;  ///< the signal that this process got meanwhile; 0: none
};

/// Runs a cluster from start to end: its tasks' lines on this process's outputs, its signals passed
/// on to them. With a secret of this run alone, unless the environment has one.
/// @param guard  Made before this process had other threads. @param certificates  Their folder; empty:
///   without TLS.
/// @throws Error  as LocalCluster, RemoteCluster and Supervisor.
/// Threads: one run at a time, on the thread that made `guard`.
ClusterEnd run_cluster(const LaunchOptions& options, const OrphanReaper& guard,
                       const std::string& certificates = {});

}  // namespace strata::tools
