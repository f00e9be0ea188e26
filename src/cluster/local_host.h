#pragma once

#include <string>

namespace strata::cluster {

/// The address of this host's interface that leads to `host`: what others there can reach.
/// @throws Error  kUnavailable: no way there; kNotFound: the name is not known.
std::string local_host_towards(const std::string& host);

/// Whether the name can be looked up now. A pod's own may take a while to be known.
bool is_known_host(const std::string& host);

}  // namespace strata::cluster
