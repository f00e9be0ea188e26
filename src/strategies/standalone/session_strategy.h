#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/strategies/strategy.h"
#include "strata/wire/security.h"
#include "strategies/standalone/messages.h"

namespace strata::standalone {

/// What a session's group is made of.
struct GroupSpec {
  std::vector<std::string> devices;
  uint64_t seed = 0;
  int rank = 0;
  int servers = 1;
  std::string leader = {};  ///< The first server's address for the group.
  std::optional<ParametersSpec> parameters = {};
  std::optional<std::string> listen_address = {};
  std::string job = {};
  std::optional<wire::TlsOptions> tls = {};
  std::optional<wire::JobSecret> job_secret = {};
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  std::chrono::milliseconds wait_timeout = std::chrono::minutes(30);
};

/// What runs a session's steps on this server: a strategy of all servers' replicas in sync, or, where
/// there are parameter servers, of this one's, whose variables they hold.
std::unique_ptr<Strategy> make_session_strategy(const GroupSpec& spec);

/// What the servers agree with on each run where each steps by itself; null: they do not.
std::unique_ptr<Strategy> make_voters(GroupSpec spec);

}  // namespace strata::standalone
