#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "strata/cluster/server.h"
#include "strata/wire/transport.h"

namespace strata::cluster {

/// @param where  Who asked for it, for the error.
/// @throws Error  kInvalidArgument: there is no such wire.
void check_wire(std::string_view wire, std::string_view where);

/// What the options ask for. @throws Error  as Server.
std::shared_ptr<wire::Transport> make_transport(const ServerOptions& options);

}  // namespace strata::cluster
