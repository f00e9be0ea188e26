#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/one_of.h"
#include "strata/wire/security.h"

namespace strata {

struct ClientWords {
  enum Word { kInProcess, kStandalone };
  static constexpr const char* kOption = "client";
  static constexpr const char* kWords[] = {"in_process", "standalone"};
};
/// Where a strategy's replicas run: in this process, or on servers without the program's code.
using ClientMode = OneOf<ClientWords>;

/// How a standalone client reaches its servers (docs/standalone.md).
struct StandaloneOptions {
  /// "HOST:PORT" of each; under TLS in the order of their tasks.
  std::vector<std::string> servers = {};
  /// What `session()` returned in a client before: its variables, optimizers and position continue.
  /// Empty: a new session.
  std::string session = {};
  /// This client's name; its certificate has the same. Only it can resume its sessions.
  std::string task = "/job:client/task:0";
  /// Default: STRATA_TLS_DIR and its like (cluster::tls_from_environment).
  std::optional<wire::TlsOptions> tls = {};
  /// Default: STRATA_JOB_SECRET_FILE, else STRATA_JOB_SECRET.
  std::optional<wire::JobSecret> job_secret = {};
  /// The limit of the wait for a server to answer a connection, also of one that was lost.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(30);
};

}  // namespace strata
