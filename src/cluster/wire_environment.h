#pragma once

#include <optional>
#include <string>

#include "strata/cluster/resolvers.h"

namespace strata::cluster {

/// The wire that STRATA_WIRE asks for, as ServerOptions::wire has it; nullopt: it is not set.
/// @throws Error  kInvalidArgument: there is no such wire.
std::optional<std::string> wire_from_environment(
    const Environment& environment = Environment::of_process());

}  // namespace strata::cluster
