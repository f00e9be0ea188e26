#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "core/mutex.h"
#include "core/thread.h"
#include "strata/core/export.h"
#include "strata/wire/security.h"

namespace strata::standalone {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";
  /// This server's; its certificate proves it.
  std::string task = "/job:worker/task:0";
  std::optional<wire::TlsOptions> tls = {};
  std::optional<wire::JobSecret> job_secret = {};

  /// The folder of the files that clients' datasets may read; empty: none.
  std::string data = {};

  // Bounds.
  uint64_t memory = 0;                       ///< Bytes of all sessions; 0: half of the machine's.
  uint64_t graph_bytes = uint64_t{1} << 20;  ///< Of a step as it comes.
  size_t sessions = 16;
  std::chrono::nanoseconds step_time = std::chrono::minutes(5);
  /// How long a session is kept without its client.
  std::chrono::nanoseconds keep = std::chrono::minutes(10);
};

/// Runs steps for standalone clients (docs/standalone.md): `strata server`. Without TLS and a secret
/// it listens at an address of this host alone.
/// Threads: one for each session, beside its replicas'; the calls from any.
class STRATA_API StandaloneServer {
 public:
  /// @throws Error  kInvalidArgument: options; an address that others reach, without TLS or secret.
  ///   As wire::Transport::listen.
  explicit StandaloneServer(const ServerOptions& options);
  /// Ends all sessions.
  ~StandaloneServer();
  StandaloneServer(const StandaloneServer&) = delete;
  StandaloneServer& operator=(const StandaloneServer&) = delete;

  /// With its real port.
  const std::string& address() const;

  /// Admits clients until it is asked to stop.
  void serve(const std::stop_token& stop);

  size_t num_sessions() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::standalone
