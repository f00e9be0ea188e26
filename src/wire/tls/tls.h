#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "wire/stream.h"
#include "wire/tcp/socket_transport.h"

namespace strata::wire {

/// A task's certificate and key, ready for use. Threads: any.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// TLS over `below`, which is established first; of the two ends one connects.
  virtual std::unique_ptr<Stream> secure(std::unique_ptr<Stream> below, bool connects) = 0;

 protected:
  TlsContext() = default;
};

/// @param new_key_after  Bytes that are sent with one key; left out: far fewer than is safe.
/// @throws Error as make_socket_transport.
std::shared_ptr<TlsContext> make_tls_context(const TlsOptions& options,
                                             std::optional<uint64_t> new_key_after = std::nullopt);

}  // namespace strata::wire
