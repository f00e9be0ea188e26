#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::collective {

/// A half-open range of elements.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

/// One step of one rank of a collective. A step works on `chunks` consecutive chunks of the buffer,
/// from chunk `chunk` on, in one or more slots: buffers of one size that the rank can address.
struct Step {
  enum class Kind : uint8_t {
    kBarrier,  ///< Waits until every rank has reached this step (ranks that share memory).
    kSend,     ///< Sends slot `target`'s chunks to `peer`, after earlier sends; does not wait.
    kReceive,  ///< Waits for the peer's next message to this rank, the chunks of slot `target`.
    kReduce,   ///< target = the tree over `sources` [first, last), in their order.
    kCopy,     ///< target = source `first`.
  };

  Kind kind = Kind::kBarrier;
  int peer = -1;
  int chunk = 0;
  int chunks = 1;  ///< 0: a message without content
  int target = 0;
  int first = 0;
  int last = 0;
  int stage = 0;  ///< A stage's messages are received in later stages; `segmented` needs it.
};

/// A collective as data: the steps of each rank, in order. Executors run it, the planner estimates
/// its cost, a symbolic test verifies it for every number of ranks up to 33, and `to_string` prints
/// it.
///
/// Ranks that share memory use kBarrier, kReduce and kCopy: slot i is rank i's buffer. Between two
/// barriers the ranks run freely, so within such a phase no rank may touch a (slot, chunk) that
/// another one writes.
///
/// Ranks that send messages use kSend, kReceive, kReduce and kCopy: slots are a rank's own. Slot 0
/// is its result; 1, 2, ... are the values of its replicas, in the order of their ids; further ones
/// are scratch. Between two ranks messages arrive in order, so they need no names. All receives may
/// be posted at the start; a rank that is about to add into a buffer that it still sends waits for
/// that first. The result may be the same memory as the first replica's value.
struct STRATA_API Schedule {
  enum class Slot : uint8_t {
    kResult,
    kValue,    ///< a replica's value, never written
    kWhole,    ///< scratch for values and results, in the values' dtype
    kPartial,  ///< scratch for sums of some replicas, in the dtype that sums are added in
  };

  /// Marks an absent value at this place of the tree, in `sources`.
  static constexpr int kAbsent = -1;

  std::string name;
  /// Chunk c is [borders[c], borders[c + 1]) of borders.back() parts of the buffer.
  std::vector<int64_t> borders;
  int64_t alignment = 16;  ///< Inner borders are multiples of this many elements.
  /// The operands of kReduce and kCopy: slots, in the order of the tree over replica ids, or
  /// kAbsent.
  std::vector<int> sources;
  std::vector<std::vector<Step>> ranks;  ///< ranks[r] = the steps of rank r.
  /// slots[r] = the slots of rank r; empty for ranks that share memory
  std::vector<std::vector<Slot>> slots;

  int num_ranks() const { return static_cast<int>(ranks.size()); }
  int num_chunks() const { return static_cast<int>(borders.size()) - 1; }

  /// The elements of `chunks` chunks from `chunk` on, in a buffer of `size`. Late chunks may be
  /// empty.
  Range range(int64_t size, int chunk, int chunks = 1) const;
};

/// Makes the schedule in which rank r sums chunk r of all buffers and writes it into all of them,
/// in common memory. It has 2 barriers; every element is read n times and written n times in all,
/// the least that shared memory allows.
STRATA_API Schedule shared_direct_all_reduce(int num_ranks);

/// Applies `schedule` to each of `count` parts of the buffer, so that one part is summed while the
/// next one travels: in turn n a rank runs stage n of part 0, stage n - 1 of part 1 and so on.
STRATA_API Schedule segmented(const Schedule& schedule, int count);

/// The messages of a schedule.
struct Traffic {
  int stages = 0;        ///< messages that wait for one another, at most
  int64_t messages = 0;  ///< sent by the rank that sends most
  double sent = 0;       ///< by the rank that sends most, in buffers
  double received = 0;   ///< by the rank that receives most, in buffers
  double total = 0;      ///< by all ranks
};
STRATA_API Traffic traffic(const Schedule& schedule);

/// Prints a line for each step: "3: receive 1/8..2/8 of slot 4 from 2".
STRATA_API std::string to_string(const Schedule& schedule);

/// Chunk `index` of `size` elements cut into `count` nearly equal parts. Inner borders are
/// multiples of 64 elements, so that two ranks never write one cache line. Late chunks may be
/// empty.
STRATA_API Range chunk_range(int64_t size, int count, int index);

}  // namespace strata::collective
