#pragma once

#include <cstddef>
#include <string_view>

#include "runtime/replica_group.h"

namespace strata::detail {

/// Makes `group` that of a strategy whose steps are recorded here and computed elsewhere: `num_replicas`
/// replicas, which take functions alone.
/// @param kind  Of the devices that compute: "CPU", "TPU".
void record_for(ReplicaGroupOptions& group, std::string_view kind, size_t num_replicas);

}  // namespace strata::detail
