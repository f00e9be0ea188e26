#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/wire/job_secret.h"
#include "strata/wire/transport.h"

namespace strata::wire {

/// Files in PEM form. Both sides show a certificate (TLS 1.3): it must be of the authority, valid
/// now, and name the task that its owner says it is (see certificates.h).
struct TlsOptions {
  std::string authority_file = {};    ///< the job's own authority
  std::string certificate_file = {};  ///< this task's
  std::string key_file = {};          ///< this task's secret
};

struct SocketOptions {
  std::optional<TlsOptions> tls = std::nullopt;  ///< none: anybody on the network can read along
  /// Only peers that have the same are let in. None, and no TLS: anybody who names the job is.
  std::optional<JobSecret> job_secret = std::nullopt;

  /// A connection ends when the peer's host has answered nothing for so long; 0: when the system
  /// loses patience, after many minutes, and never while nothing is sent.
  std::chrono::milliseconds silence_limit{0};

  /// How much of a message travels before its receive is known.
  size_t eager_limit = size_t{64} << 10;
  /// How much of that a connection keeps for receives that are not there yet.
  size_t eager_budget = size_t{8} << 20;
};

/// TCP, or TLS over TCP.
/// A key file that other users can open is reported in the log, with the chmod that mends it.
/// @throws Error kUnimplemented: TLS, and this build has no OpenSSL. kInvalidArgument: quotes the
///   file that is no certificate or key, or does not belong to the others.
STRATA_API std::unique_ptr<Transport> make_socket_transport(const SocketOptions& options = {});

/// Whether this build has TLS.
STRATA_API bool socket_transport_has_tls();

}  // namespace strata::wire
