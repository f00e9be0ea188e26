#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/replica_group.h"
#include "strategies/standalone/client.h"

namespace strata::standalone {

/// What a strategy's options say that matters to a client.
struct ClientOptions {
  std::string strategy;  ///< Its name, for errors.
  ClientMode client;
  StandaloneOptions standalone;
  std::vector<std::string> devices;  ///< Of each server; empty: {"cpu:0"}.
  Bits bits;
  uint64_t seed = 0;
  std::chrono::milliseconds timeout;
};

/// Connects to the servers, and begins or resumes a session; null where the replicas are in this process.
/// @throws Error  kInvalidArgument, kUnimplemented: options that do not go together. As StandaloneClient.
std::shared_ptr<StandaloneClient> connect_client(const ClientOptions& options);

}  // namespace strata::standalone
