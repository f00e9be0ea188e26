#pragma once

#include <vector>

namespace strata::tools {

/// The cores that this process may use, those with a common place beside each other: first by
/// socket, then by physical core, whose hyper-threads the kernel numbers far apart.
std::vector<int> cores_by_place();

/// `cores` in `shares` parts of neighbours, as equal as can be, the larger first; all empty if
/// there are fewer cores than shares.
std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int shares);

}  // namespace strata::tools
