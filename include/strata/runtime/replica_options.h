#pragma once

#include <optional>

namespace strata {

/// How the replicas of a process share its cores and its memory. Trained weights are the same bits
/// with any of these options.
struct ReplicaOptions {
  int permits = 0;  ///< Replicas that compute at a time; 0: one per core.
  /// Intra-op threads of large operators; 0: cores / replicas, at least 1.
  int threads_per_replica = 0;
  /// CPU replicas keep one copy of the parameters that an optimizer trains; false: each one of its
  /// own. Unset: one copy, unless all of them fit into a core's cache (at most 2 MiB an optimizer).
  std::optional<bool> share_storage = {};
  bool pin_threads = true;  ///< Keep replica threads on cores, where there is one for each.
};

}  // namespace strata
