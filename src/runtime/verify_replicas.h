#pragma once

#include <vector>

#include "runtime/replica_group.h"
#include "strata/runtime/variable.h"

namespace strata::detail {

/// Strategy::verify_replicas.
void verify_replicas(const ReplicaGroup& group, const std::vector<Variable>& variables);

}  // namespace strata::detail
