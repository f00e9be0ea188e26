#pragma once

#include <string>

namespace strata::cluster {

/// `grpc://host:port`, or the address alone without an rpc layer.
std::string with_rpc_layer(const std::string& rpc_layer, const std::string& address);

}  // namespace strata::cluster
