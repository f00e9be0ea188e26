#pragma once

#include "strata/runtime/replica_context.h"

namespace strata {

/// Inside a replica function: the calling replica, and its number.
inline ReplicaContext& replica() { return *get_replica_context(); }
inline int id() { return replica().replica_id_in_sync_group(); }

}  // namespace strata
