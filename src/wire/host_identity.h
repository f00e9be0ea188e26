#pragma once

#include <string>

namespace strata::wire {

/// Equal for processes that share memory where strata has them do so: one boot of one kernel, one
/// network namespace, one user. Containers with networks of their own are hosts of
/// their own. Where the system does not tell (no /proc), no two processes are equal.
std::string host_identity();

/// Equal for processes that compute on the same processors: one boot of one kernel, containers with
/// networks of their own among them. Empty where the system does not tell.
std::string machine_identity();

}  // namespace strata::wire
