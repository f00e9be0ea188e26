#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/algorithms/local_subtrees.h"
#include "collective/collective_call.h"
#include "collective/mpi/mpi_requests.h"
#include "collective/mpi/mpi_setup.h"
#include "core/timed_mutex.h"

namespace strata::collective {

/// The exchange of the calls of one id. Every rank sends every other its call's fingerprint, and
/// what it brings, if that is small. So all learn that all have come, and whether they agree.
class MpiChannel {
 public:
  /// @param tag  Of the messages; the next one is its, too.
  /// @param small_bytes  As in MpiOptions.
  MpiChannel(const MpiGroup& group, const LocalSubtrees& subtrees, int rank, int tag,
             int64_t small_bytes);

  /// Held during a call: those of several threads go one after the other.
  TimedMutex& calls() STRATA_RETURN_CAPABILITY(calls_) { return calls_; }

  /// What ranks bring travels with their messages.
  bool is_small(const CollectiveCall& call) const;
  void barrier(const CollectiveCall& call, uint64_t fingerprint, const MpiWait& wait)
      STRATA_REQUIRES(calls_);
  /// Of the last barrier.
  uint64_t fingerprint(int rank) const STRATA_REQUIRES(calls_);
  /// The result of a small call that has met.
  void take(const CollectiveCall& call) const STRATA_REQUIRES(calls_);
  /// Rank 0's word to all others. @param word  Its own, elsewhere overwritten.
  void tell(int64_t& word, const MpiWait& wait) STRATA_REQUIRES(calls_);

 private:
  int ranks() const { return static_cast<int>(group_.names.size()); }
  int64_t brought_bytes(const CollectiveCall& call) const;
  int64_t bring(const CollectiveCall& call, std::byte* target) const;
  /// A rank's message.
  const std::byte* message(int rank) const STRATA_REQUIRES(calls_);

  const MpiGroup& group_;
  const LocalSubtrees& subtrees_;
  const int rank_;
  const int tag_;
  const int64_t most_bytes_;  // that a rank brings
  TimedMutex calls_;
  std::vector<std::byte> mine_ STRATA_GUARDED_BY(calls_);
  std::vector<std::byte> received_ STRATA_GUARDED_BY(calls_);
  int64_t word_ STRATA_GUARDED_BY(calls_) = 0;
};

}  // namespace strata::collective
