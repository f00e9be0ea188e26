#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/wire/security.h"
#include "wire/transport.h"

namespace strata::wire {

struct SocketOptions {
  std::optional<TlsOptions> tls = std::nullopt;  ///< unset: not encrypted
  /// Only peers with the same secret are admitted. Without it, and without TLS, any peer that names
  /// the job is.
  std::optional<JobSecret> job_secret = std::nullopt;

  /// A connection ends when the peer's host has not answered for this long; 0: when the system
  /// gives up, after many minutes, and never while nothing is sent.
  std::chrono::milliseconds silence_limit{0};

  /// The eager threshold: bytes of a message that are sent before its receive is posted.
  size_t eager_limit = size_t{64} << 10;
  /// The bytes that a connection keeps for receives that are not posted yet.
  size_t eager_budget = size_t{8} << 20;
};

/// Makes a transport of TCP, or TLS over TCP. A key file that other users can open is reported in
/// the log, with the chmod that mends it.
/// @throws Error kUnimplemented: TLS, and this build has no OpenSSL. kInvalidArgument: quotes the
///   file that is no certificate or key, or does not match the others.
STRATA_API std::unique_ptr<Transport> make_socket_transport(const SocketOptions& options = {});

/// Whether this build has TLS.
STRATA_API bool socket_transport_has_tls();

}  // namespace strata::wire
