#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/collective/schedule.h"

namespace strata::collective {

/// Collects messages and sums of single chunks in any order, and writes them as each rank's steps:
/// by stage, what is next to one another joined. In a stage a rank first receives, then adds, then
/// sends, starting with different peers, so that no two begin with one receiver.
///
/// Why nothing waits for ever: what a stage sends is received in later stages only, and a rank's
/// steps are ordered by stage; so, in order of stages, every receive finds its message sent.
class ScheduleBuilder {
 public:
  ScheduleBuilder(std::string name, int num_ranks, std::vector<int64_t> borders);

  int num_ranks() const { return schedule_.num_ranks(); }
  int num_chunks() const { return schedule_.num_chunks(); }
  void set_alignment(int64_t alignment) { schedule_.alignment = alignment; }

  /// A new slot of `rank`; the first is the result, then come its replicas' values.
  int add_slot(int rank, Schedule::Slot kind);
  Schedule::Slot slot(int rank, int index) const {
    return schedule_.slots[static_cast<size_t>(rank)][static_cast<size_t>(index)];
  }

  /// Sent in `stage`, received in the next one. `chunks` is 1, or 0 for no content.
  void message(int stage, int from, int from_slot, int to, int to_slot, int chunk, int chunks = 1);
  /// @param order  Among the sums of a rank's stage: later ones may read what earlier ones wrote.
  void reduce(int stage, int rank, const std::vector<int>& sources, int target, int chunk,
              int order);
  /// After all sums of the stage.
  void copy(int stage, int rank, int source, int target, int chunk);

  Schedule finish() &&;

 private:
  struct Message {
    int stage, from, to, from_slot, to_slot, chunk, chunks;
    auto operator<=>(const Message&) const = default;
  };
  struct Sum {
    int stage, rank, order, target, first, last, chunk, chunks;
    auto operator<=>(const Sum&) const = default;
  };

  int intern(const std::vector<int>& sources);

  Schedule schedule_;
  std::vector<Message> messages_;
  std::vector<Sum> sums_;
  std::map<std::vector<int>, int> interned_;
};

}  // namespace strata::collective
