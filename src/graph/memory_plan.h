#pragma once

#include <cstdint>
#include <vector>

namespace strata::graph {

/// A line of a processor's cache, and what its vectors want.
inline constexpr int64_t kCacheLine = 64;
/// As a GPU's allocator aligns, by which its libraries choose kernels.
inline constexpr int64_t kDeviceAlignment = 512;

/// A piece of memory that a run needs from its step `first` to its step `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
};

/// Places for pieces in one block of memory: pieces that are needed at the same time do not overlap.
struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< Of each piece, multiples of the alignment.
  int64_t bytes = 0;             ///< Of the block.
};

/// The largest piece first, each at the lowest place that is free while it is needed.
/// Cost: n^2 log n for n pieces.
/// Source: "greedy by size", Pisarchyk & Lee 2020.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int64_t alignment = kCacheLine);

}  // namespace strata::graph
