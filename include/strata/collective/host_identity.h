#pragma once

#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::collective {

/// Equal for processes that can share memory through SharedMemoryCommunicator: one boot of one
/// kernel, one network namespace, one user. Containers with networks of their own are hosts of
/// their own. Where the system does not tell (no /proc), no two processes are equal.
STRATA_API std::string host_identity();

/// For Placement::host_of_rank: equal numbers for equal identities, from 0 in the order of ranks.
/// @param identities  By rank; each process makes its own and tells the others.
STRATA_API std::vector<int> hosts_of(const std::vector<std::string>& identities);

}  // namespace strata::collective
