#pragma once

#include <string>
#include <string_view>

namespace strata::cluster {

/// What keeps `address` from being `host:port` (`[v6]:port`; no host with port 0: any interface);
/// empty if nothing does.
std::string what_is_wrong_with_address(std::string_view address);

}  // namespace strata::cluster
