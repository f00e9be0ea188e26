#pragma once

#include <cstdint>
#include <vector>

#include "collective/collective_call.h"
#include "collective/shared_memory/shared_buffers.h"
#include "collective/shared_memory/shared_memory_channel.h"

namespace strata::collective {

/// Runs a call whose tensors lie in buffers that all ranks map: they are read and written where
/// they are, with two barriers. All-reduce: rank r adds part r of all values and writes it into all
/// results, n reads and n writes an element in all, the least there is.
class InPlaceCall {
 public:
  /// Below, one barrier and a copy are faster.
  static constexpr int64_t kLeastBytes = 32 << 10;

  InPlaceCall(SharedMemoryChannel& channel, SharedBuffers& buffers,
              const std::vector<int>& rank_of_replica, const CollectiveCall& call)
      : channel_(channel), buffers_(buffers), rank_of_replica_(rank_of_replica), call_(call) {}

  /// Writes where this rank's tensors lie, in the channel's present step. @return 0: somewhere
  /// else; the others see it as this rank's note.
  uint32_t begin();
  /// Can it be run? Asked when the first step was awaited. The same on all ranks.
  bool possible(uint32_t first) const;
  /// Did a rank that could have run it so write no first piece?
  bool somewhere(uint32_t first) const;
  void run(uint32_t first, const SharedWait& wait);

 private:
  /// Tensors of a rank, in this process.
  std::vector<std::byte*> tensors(int rank, uint32_t first) const;
  void work(uint32_t first) const;

  SharedMemoryChannel& channel_;
  SharedBuffers& buffers_;
  const std::vector<int>& rank_of_replica_;
  const CollectiveCall& call_;
};

}  // namespace strata::collective
