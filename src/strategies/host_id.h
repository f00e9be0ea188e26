#pragma once

#include <string>

namespace strata::detail {

/// Names what processes share memory on: equal for two of them if they run on one kernel and in one
/// network namespace (a container with a network of its own counts as a host).
std::string host_id();

}  // namespace strata::detail
