#pragma once

#include <memory>

#include "strata/ps/placement.h"
#include "strata/strategies/strategy.h"
#include "tools/study/configuration.h"

namespace strata::tools {

/// The strategy of a configuration, in this process: with the replicas that are this task's, all of
/// them where the configuration has one process.
/// @throws Error  kInvalidArgument: a cluster that does not fit: the replicas cannot be divided by
///   its workers, or it has several for a strategy of one process. As the strategies.
std::unique_ptr<Strategy> make_strategy(const Configuration& configuration);

/// Where variables are on parameter servers.
ps::PlacementOptions placement_options(StudyPlacement placement);

/// A configuration for the cluster that a launcher has started this process in: its number of
/// servers, and as many replicas as it has workers, or as asked for.
/// @param has_strategy, has_replicas  The configuration's own, which must fit.
/// @throws Error  kInvalidArgument: they do not.
Configuration fit_to_cluster(Configuration configuration, bool has_strategy, bool has_replicas);

/// Whether a launcher has started this process as a task of a cluster.
bool is_cluster_task();

}  // namespace strata::tools
