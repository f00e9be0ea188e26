#pragma once

#include "ps/tables/parameter_server.h"
#include "strata/cluster/cluster_spec.h"
#include "strategies/standalone/budget.h"
#include "strategies/standalone/session_world.h"

namespace strata::standalone {

/// The workers and parameter servers of a session, as tasks of a cluster. Workers do not listen there.
/// @throws Error  kInvalidArgument: what no client of this version asks for.
cluster::ClusterSpec cluster_of(const ParametersSpec& parameters);

/// A parameter server of a session, for its workers. It takes half of the memory that the server has
/// left. Threads: its own.
class ParameterHost {
 public:
  /// Serves, where `group.listen_address` says.
  ParameterHost(const GroupSpec& group, Budget& budget);

 private:
  BudgetShare budget_;
  ps::ParameterServer server_;
};

}  // namespace strata::standalone
