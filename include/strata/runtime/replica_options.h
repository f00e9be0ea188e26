#pragma once

#include <optional>

namespace strata {

/// The sharing of a process's cores and memory by its replicas. Trained weights are the same bits
/// with any of these options.
struct ReplicaOptions {
  int permits = 0;  ///< The replicas that compute at a time; 0: one per core.
  /// Intra-op threads of large operators; 0: cores / replicas, at least 1.
  int threads_per_replica = 0;
  /// CPU replicas share one copy of the parameters that an optimizer trains; false: each has its
  /// own. Unset: one copy, unless all of them fit into a core's cache (at most 2 MiB an optimizer).
  std::optional<bool> share_storage = {};
  bool pin_threads = true;  ///< Pin replica threads to cores, if there is one for each.
};

}  // namespace strata
