#pragma once

#include <cstdint>
#include <vector>

#include "strata/collective/schedule.h"

namespace strata::collective {

/// Where one rank's scratch slots lie: only chunks that it uses have room, and those that a step
/// works on together lie together.
class ScratchLayout {
 public:
  ScratchLayout(const Schedule& schedule, int rank);

  /// A run of chunks of one slot.
  struct Run {
    int slot, first_chunk, last_chunk;
    bool partial;
  };
  const std::vector<Run>& runs() const { return runs_; }

  /// Which run holds the chunk of a scratch slot.
  int run_of(int slot, int chunk) const;

  /// By step: earlier sends of the rank, by step, that may still read what this step writes.
  const std::vector<std::vector<int>>& sends_to_await() const { return sends_; }

 private:
  std::vector<Run> runs_;                     // by slot, then chunk
  std::vector<std::pair<int, int>> of_slot_;  // by slot: its first run, behind its last
  std::vector<std::vector<int>> sends_;
};

}  // namespace strata::collective
