#pragma once

#include <string>

#include "tools/launch/launch_options.h"
#include "tools/launch/orphan_reaper.h"

namespace strata::tools {

/// Runs a cluster from start to end: its tasks' lines on this process's outputs, its signals passed
/// on to them. With a secret of this run alone, unless the environment has one.
/// @param guard  Made before this process had other threads. @param certificates  Their folder; empty:
///   without TLS.
/// @return the status of Supervisor::run.
/// @throws Error  as LocalCluster, RemoteCluster and Supervisor.
/// Threads: one run at a time, on the thread that made `guard`.
int run_cluster(const LaunchOptions& options, const OrphanReaper& guard,
                const std::string& certificates = {});

}  // namespace strata::tools
