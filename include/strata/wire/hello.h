#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"

namespace strata::wire {

/// How a task introduces itself on a new connection; the one it connects to answers with its own.
/// Every text is at most 255 bytes.
struct STRATA_API Hello {
  /// The job, which both sides must have the same: a fingerprint of the cluster, a token.
  std::string job;
  std::string task;         ///< "/job:worker/task:1". Under TLS the certificate must say so, too.
  uint64_t generation = 0;  ///< how often the task was started; not compared here
  std::string purpose;      ///< for the one that accepts: "control", "data"; not compared here

  friend bool operator==(const Hello&, const Hello&) = default;
};

}  // namespace strata::wire
