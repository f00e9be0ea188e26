#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/export.h"

namespace strata::cluster {

// What the jobs of a cluster are for. `chief` (at most one task) is a worker with more to do;
// without one, worker 0 does it. `ps` holds variables. `evaluator` (at most one task) stands apart:
// it may be in the spec or not, and is never waited for. Source: TensorFlow's multi_worker_util.

inline constexpr std::string_view kChief = "chief";
inline constexpr std::string_view kWorker = "worker";
inline constexpr std::string_view kPs = "ps";
inline constexpr std::string_view kEvaluator = "evaluator";

/// Checks that `spec` describes a cluster that can run, and that `task` is one of its tasks: known
/// jobs, one chief and one evaluator at most, a chief or a worker, indices without gaps, an address
/// `host:port` each, none twice (port 0, one that the system picks, may be).
/// @param source  Where the spec came from, for messages: "TF_CONFIG".
/// @throws Error  kInvalidArgument: quotes the offending part and says how to mend it.
STRATA_API void check_cluster(const ClusterSpec& spec, const TaskId& task,
                              std::string_view source = "ClusterSpec");

/// True for the chief, for worker 0 where there is no chief, and for the evaluator, which is by
/// itself.
STRATA_API bool is_chief(const ClusterSpec& spec, const TaskId& task);

/// The task that the others meet at: the chief, or else worker 0.
/// @throws Error  kInvalidArgument: `spec` has neither.
STRATA_API TaskId leader(const ClusterSpec& spec);

/// How many tasks train together with `task`: chief and workers; 1 for the evaluator.
/// @throws Error  kInvalidArgument: a ps does not train.
STRATA_API int worker_count(const ClusterSpec& spec, const TaskId& task);

/// Where `task` stands among those, from 0: the chief first; 0 for the evaluator.
/// @throws Error  kInvalidArgument: a ps does not train.
STRATA_API int id_in_cluster(const ClusterSpec& spec, const TaskId& task);

/// The tasks that train, in the order of `id_in_cluster`.
STRATA_API std::vector<TaskId> training_tasks(const ClusterSpec& spec);

/// Everyone who takes part: the tasks that train, then the ps; never the evaluator. The place here
/// is Estimator's global id.
STRATA_API std::vector<TaskId> members(const ClusterSpec& spec);

}  // namespace strata::cluster
