#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "strata/collective/schedule.h"
#include "tensor/arena.h"
#include "tensor/stream_event.h"

namespace strata::optimizers {

/// Which elements of the arenas of a dtype each replica updates, and keeps slots of, where the
/// cards of a job share an optimizer's state out: of n replicas replica r has the r-th of n equal
/// parts of each bucket, which a reduce-scatter gives it. The same in all processes.
struct CardShards {
  /// Of the arenas; each a multiple of `num_replicas` elements. What is in none is all replicas'.
  std::vector<collective::Range> buckets = {};
  int num_replicas = 1;

  collective::Range part(size_t bucket, int replica) const {
    const int64_t size = buckets[bucket].size() / num_replicas;
    const int64_t begin = buckets[bucket].begin + size * replica;
    return {.begin = begin, .end = begin + size};
  }
};
bool operator==(const CardShards& a, const CardShards& b);

/// Makes arenas whole of which each card has written its own parts, on the communication streams;
/// the host waits for nothing.
class ShardGatherer {
 public:
  explicit ShardGatherer(std::shared_ptr<collective::CardCommunicator> communicator);

  /// The replica's parts are ready on the calling thread's stream of its card. Threads: each
  /// replica's.
  void written(int local);
  /// By one thread, after `written` of all replicas of this process, in all processes together.
  /// @param memory  By local replica.
  /// @throws Error  as the communicator's calls.
  void gather(const CardShards& shards, const std::vector<tensor::Arena>& memory,
              const std::string& name);
  /// The calling thread's stream of the replica's card waits for what was gathered last.
  void wait(int local) const;

 private:
  const std::shared_ptr<collective::CardCommunicator> communicator_;
  std::vector<tensor::StreamEvent> written_;   // by local replica
  std::vector<tensor::StreamEvent> gathered_;  // likewise
};

}  // namespace strata::optimizers
