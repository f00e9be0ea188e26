#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace strata::bench {

/// What memory takes at least for an all-reduce within one host: each of n processes reads its
/// share of n buffers and writes the sum to all of them; no process waits for another.
class MemoryFloor {
 public:
  /// @param memory_fd  Shared by the processes: n times kMostCallBytes.
  MemoryFloor(int memory_fd, int rank, int ranks);

  /// @param operation  "floor", or "floor_past_cache": with stores that do not read the line first.
  std::function<void()> prepare(const std::string& operation, int64_t bytes) const;

 private:
  int rank_;
  int ranks_;
  float* memory_ = nullptr;
};

/// Stores that leave the cache alone, where the processor has them; else plain ones.
/// @param sources, targets  `ranks` buffers each, of `count` floats, a multiple of 16; 64-byte
/// aligned.
void sum_past_cache(const float* const* sources, float* const* targets, int ranks, int64_t count);

}  // namespace strata::bench
