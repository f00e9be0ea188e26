#pragma once

#include <string>

#include "ps/tables/request.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/core/error.h"

namespace strata::ps {

/// What one task may ask of another: of a parameter server, or of a worker that calls a
/// coordinator's functions. docs/clusters.md has the table ("Who may do what").
enum class Action {
  kRead,        ///< Values, slots and counters of tables, changing nothing.
  kTrain,       ///< Make tables, fill, pull and push them, map memory, name a lost server.
  kEndJob,      ///< Tell a parameter server that the job is done.
  kKeepCopies,  ///< Bring a backup what changes its copies.
  kCoordinate,  ///< Have functions called on a worker.
};

/// What a request to a parameter server amounts to.
Action action_of(const Request& request);

/// @param task         Who asks, as its certificate (or without TLS, it itself) says.
/// @param coordinator  Whom the asked worker lets coordinate; else of no account.
/// @return kPermissionDenied: it may not; says who may.
Status permitted(const cluster::ClusterSpec& spec, const std::string& task, Action action,
                 const cluster::TaskId& coordinator = {"chief", 0});

}  // namespace strata::ps
