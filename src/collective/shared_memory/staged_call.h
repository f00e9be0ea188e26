#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/algorithms/local_subtrees.h"
#include "collective/collective_call.h"
#include "collective/shared_memory/shared_memory_channel.h"
#include "strata/collective/schedule.h"

namespace strata::collective {

/// Runs a call whose tensors the other ranks cannot see: piece by piece they go through the
/// channel's slots, which stay in the caches. While one piece is joined the next one is written
/// already.
///
/// All-reduce of few ranks, or of few elements: every rank writes its nodes of the tree and joins
/// everything itself; small ones take one barrier. Else rank r joins part r, and the others fetch
/// it.
class StagedCall {
 public:
  StagedCall(SharedMemoryChannel& channel, const LocalSubtrees& subtrees,
             const CollectiveCall& call);

  /// Writes the first piece, in the channel's present step. Publish it, await it, and `run`.
  void begin();
  /// @param begun  The first step is over and awaited.
  void run(const SharedWait& wait, bool begun);

 private:
  Range range(int part, int64_t piece) const;
  std::byte* node_slot(const LocalSubtrees::Node& node, uint32_t step, int part) const;

  void stage(int64_t piece, uint32_t step) const;
  void stage_nodes(int part, const Range& range, uint32_t step, bool for_others) const;
  void join(int part, const Range& range, uint32_t written, std::byte* copy) const;
  void consume(int64_t piece, uint32_t step) const;
  void fetch(int64_t piece, uint32_t step) const;
  /// From a slot to the result.
  void take(const Range& range, const std::byte* from) const;

  SharedMemoryChannel& channel_;
  const LocalSubtrees& subtrees_;
  const CollectiveCall& call_;
  int rank_;
  bool divided_;               // part r of the buffer is rank r's
  bool fetches_;               // what a rank has joined is fetched by the others: a third stage
  bool stream_ = false;        // see reduce_to_all
  int slot_parts_ = 1;         // side by side in a slot
  int64_t node_bytes_ = 1;     // of an element of a node in a slot
  int64_t part_elements_ = 0;  // of a part, in a piece
  int64_t pieces_ = 0;
};

}  // namespace strata::collective
