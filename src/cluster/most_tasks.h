#pragma once

#include <cstdint>

namespace strata::cluster {

/// No cluster has more tasks, and SLURM has no more nodes. Resolvers refuse larger numbers in the
/// environment before they make names of them.
inline constexpr int kMostTasks = 1 << 16;

}  // namespace strata::cluster
