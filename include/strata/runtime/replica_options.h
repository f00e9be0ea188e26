#pragma once

#include <optional>

#include "strata/core/one_of.h"

namespace strata {

struct BitsWords {
  enum Word { kNative, kPortable };
  static constexpr const char* kOption = "bits";
  static constexpr const char* kWords[] = {"native", "portable"};
};
using Bits = OneOf<BitsWords>;

/// The sharing of a process's cores and memory by its replicas. Trained weights are the same bits
/// with any of these options but `bits`.
struct ReplicaOptions {
  int permits = 0;  ///< The replicas that compute at a time; 0: one per core.
  /// Intra-op threads of large operators; 0: cores / replicas, at least 1.
  int threads_per_replica = 0;
  /// CPU replicas share one copy of the parameters that an optimizer trains; false: each has its
  /// own. Unset: one copy, unless all of them fit into a core's cache (at most 2 MiB an optimizer).
  std::optional<bool> share_storage = {};
  /// "native": the fastest kernels of each processor, so that processors of one kind agree in all
  /// bits. "portable": results of replica functions have the same bits on all x86-64 processors,
  /// and one job may have several kinds. For float32 (and sums of float64) on CPUs; an operator
  /// without a portable kernel is an error that names it (docs/kernels.md has a list).
  Bits bits = {};
  bool pin_threads = true;  ///< Pin replica threads to cores, if there is one for each.
};

}  // namespace strata
