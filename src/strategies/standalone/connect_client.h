#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/replica_group.h"
#include "strategies/standalone/client.h"

namespace strata::standalone {

/// Connects to the servers, and begins or resumes a session, for a strategy whose group has its name, seed,
/// timeout and replicas' options; then makes it a group that records for the servers. Null where the
/// replicas are in this process: the group stays as it is.
/// @param devices  Of each server; empty: {"cpu:0"}.
/// @param parameters  How workers use parameter servers, for a strategy that has them.
/// @throws Error  kInvalidArgument, kUnimplemented: options that do not go together. As StandaloneClient.
std::shared_ptr<StandaloneClient> connect_client(ReplicaGroupOptions& group,
                                                 const ClientMode& client,
                                                 const StandaloneOptions& options,
                                                 const std::vector<std::string>& devices,
                                                 std::optional<ParametersSpec> parameters = {});

}  // namespace strata::standalone
