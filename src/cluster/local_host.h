#pragma once

#include <string>

#include "strata/wire/deadline.h"

namespace strata::cluster {

/// The address of this host's interface that leads to `host`: what others there can reach.
/// @throws Error  kUnavailable: no way there, the name is not known, or not in time.
std::string local_host_towards(const std::string& host, wire::Deadline deadline);

/// Looks the name up. A pod's own may take a while to be known.
/// @throws Error  kUnavailable: it is not known now, or not in time.
void look_up_host(const std::string& host, wire::Deadline deadline);

}  // namespace strata::cluster
