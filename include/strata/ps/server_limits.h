#pragma once

#include <chrono>
#include <cstdint>

namespace strata::ps {

/// Bounds on what a parameter server's workers can cost it.
struct ServerLimits {
  /// The server ends with kDeadlineExceeded when no worker has been connected for this long.
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes(10);
  /// Bytes of all tables, backups of another server's among them; a table beyond it is refused with
  /// kResourceExhausted. 0: nine tenths of the host's memory.
  uint64_t memory = 0;
  /// Bytes of one worker's requests that wait for their data, for their turn, or for their answers
  /// to be taken; one more is refused with kResourceExhausted. 0: two requests for all that the
  /// tables hold, and 64 MiB.
  uint64_t pending = 0;
};

}  // namespace strata::ps
