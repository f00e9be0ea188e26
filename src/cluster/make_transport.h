#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "strata/cluster/resolvers.h"
#include "strata/cluster/server.h"
#include "wire/transport.h"

namespace strata::cluster {

/// @param where  Who asked for it, for the error.
/// @throws Error  kInvalidArgument: there is no such wire.
void check_wire(std::string_view wire, std::string_view where);

/// What the options ask for; the job's secret is the environment's where they have none: every way
/// into a cluster leads through here. @throws Error  as Server, job_secret_from_environment.
std::shared_ptr<wire::Transport> make_transport(
    const ServerOptions& options, const Environment& environment = Environment::of_process());

}  // namespace strata::cluster
