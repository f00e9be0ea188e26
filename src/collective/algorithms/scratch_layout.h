#pragma once

#include <cstdint>
#include <vector>

#include "strata/collective/schedule.h"

namespace strata::collective {

/// Where one rank's scratch slots lie: only chunks that it uses have room, and those that a step
/// works on together lie together. And which steps wait for which.
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

  /// A message that a reduction adds while it is still arriving.
  struct Arriving {
    int receive;  ///< its step
    int source;   ///< which of the reduction's sources it is, counted from the first
  };
  /// By step, of reductions: the messages received just before for nothing else, in order.
  const std::vector<std::vector<Arriving>>& arriving() const { return arriving_; }
  /// By step, of receives: a later step waits for it, as above.
  const std::vector<bool>& taken_while_arriving() const { return taken_; }

 private:
  std::vector<Run> runs_;                     // by slot, then chunk
  std::vector<std::pair<int, int>> of_slot_;  // by slot: its first run, behind its last
  void find_arriving(const Schedule& schedule, const std::vector<Step>& steps);

  std::vector<std::vector<int>> sends_;
  std::vector<std::vector<Arriving>> arriving_;
  std::vector<bool> taken_;
};

}  // namespace strata::collective
