#pragma once

#include <cstdint>
#include <memory>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "strata/collective/communication_options.h"
#include "strata/collective/communicator.h"

namespace strata::detail {

/// What the workers of a cluster must have in common; the chief's counts.
struct Common {
  uint64_t seed = 0;
  int threads_per_replica = 1;
};

/// This process's place among the workers that train together, and the way to the others.
struct WorkerGroup {
  std::shared_ptr<cluster::Server> server;
  std::shared_ptr<collective::Communicator> communicator;
  Common common;
};

/// Meets the other workers, learns who has how many replicas, connects to each, measures the links.
/// Ranks are in the order of cluster::id_in_cluster, replica ids in the order of ranks.
/// @param replicas  Of this process, at least one.
/// @throws Error  as cluster::Server.
WorkerGroup join_workers(const cluster::Cluster& cluster, const cluster::ServerOptions& server,
                         const collective::CommunicationOptions& options, int replicas,
                         const Common& common);

}  // namespace strata::detail
