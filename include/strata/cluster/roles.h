#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/export.h"

namespace strata::cluster {

// The roles of a cluster's jobs. `chief` (at most one task) is a worker with extra duties; without
// one, worker 0 has them. `ps` holds variables. `evaluator` (at most one task) is separate: it may
// be in the spec or not, and no task waits for it. Source: TensorFlow's multi_worker_util.

inline constexpr std::string_view kChief = "chief";
inline constexpr std::string_view kWorker = "worker";
inline constexpr std::string_view kPs = "ps";
inline constexpr std::string_view kEvaluator = "evaluator";

/// Checks that `spec` describes a cluster that can run, and that `task` is one of its tasks: known
/// jobs, one chief and one evaluator at most, a chief or a worker, indices without gaps, an address
/// `host:port` each, no address twice (except with port 0, which the system replaces).
/// @param source  The origin of the spec, for messages: "TF_CONFIG".
/// @throws Error  kInvalidArgument: quotes the offending part and how to mend it.
STRATA_API void check_cluster(const ClusterSpec& spec, const TaskId& task,
                              std::string_view source = "ClusterSpec");

/// True for the chief, for worker 0 of a cluster without a chief, and for the evaluator.
STRATA_API bool is_chief(const ClusterSpec& spec, const TaskId& task);

/// The task that the others connect to: the chief, or else worker 0.
/// @throws Error  kInvalidArgument: `spec` has neither.
STRATA_API TaskId leader(const ClusterSpec& spec);

/// The number of tasks that train together with `task`: chief and workers; 1 for the evaluator.
/// @throws Error  kInvalidArgument: a ps does not train.
STRATA_API int worker_count(const ClusterSpec& spec, const TaskId& task);

/// The index of `task` among the tasks that train, from 0: the chief first; 0 for the evaluator.
/// @throws Error  kInvalidArgument: a ps does not train.
STRATA_API int id_in_cluster(const ClusterSpec& spec, const TaskId& task);

/// The tasks that train, in the order of `id_in_cluster`.
STRATA_API std::vector<TaskId> training_tasks(const ClusterSpec& spec);

/// All tasks that take part: those that train, then the ps; never the evaluator. The index here is
/// Estimator's global id.
STRATA_API std::vector<TaskId> members(const ClusterSpec& spec);

}  // namespace strata::cluster
