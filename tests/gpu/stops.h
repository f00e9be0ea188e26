#pragma once

#include <cstdint>
#include <ostream>

#include "gpu/emulated/device.h"
#include "gpu/emulated/memory.h"
#include "strata/strategies/distributed_dataset.h"

namespace strata::test::emulated_gpu {

/// What this process has done so far for which a card or the host stops.
struct Stops {
  int64_t host_waits = 0;
  int64_t synchronous_copies = 0;
  int64_t bytes_reserved = 0;
  int64_t pinned_blocks = 0;

  friend bool operator==(const Stops&, const Stops&) = default;
  friend Stops operator-(const Stops& a, const Stops& b) {
    return {a.host_waits - b.host_waits, a.synchronous_copies - b.synchronous_copies,
            a.bytes_reserved - b.bytes_reserved, a.pinned_blocks - b.pinned_blocks};
  }
  friend std::ostream& operator<<(std::ostream& out, const Stops& stops) {
    return out << stops.host_waits << " waits of the host, " << stops.synchronous_copies
               << " synchronous copies, " << stops.bytes_reserved << " new bytes, "
               << stops.pinned_blocks << " new pinned blocks";
  }
};

/// How many batches are ahead at a time is chance, but for its limit: one that is read, those of
/// `prefetch_to_device`, and one that is made. Each has a block of pinned memory for each replica
/// and field.
inline int64_t most_pinned_blocks(int64_t replicas, int64_t fields) {
  return (1 + InputOptions().prefetch_to_device + 1) * replicas * fields;
}

/// A loss scale that finds its size has the host wait once a step for the one before, behind which
/// the card has a forward and a backward pass to do
/// (GpuStepWorkTest.ALossScaleLetsTheHostBeAStepAhead): with `scales_loss` a wait counts where the
/// card has nothing.
inline Stops stops_so_far(bool scales_loss = false) {
  const Counts work = counts();
  return {scales_loss ? work.stalls : work.host_waits, work.synchronous_copies,
          static_cast<int64_t>(Memory::instance().bytes_reserved()),
          PinnedMemory::instance().blocks_reserved()};
}

}  // namespace strata::test::emulated_gpu
