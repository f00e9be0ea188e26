#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"

namespace strata::wire {

/// The introduction of a task on a new connection; the peer answers with its own. Every text has at
/// most 255 bytes.
struct STRATA_API Hello {
  /// The job, which must be the same on both sides: a fingerprint of the cluster, a token.
  std::string job;
  std::string task;         ///< "/job:worker/task:1". Under TLS the certificate must have the same.
  uint64_t generation = 0;  ///< the number of the task's starts; not compared here
  std::string purpose;      ///< "control", "data", for the accepting side; not compared here

  friend bool operator==(const Hello&, const Hello&) = default;
};

}  // namespace strata::wire
