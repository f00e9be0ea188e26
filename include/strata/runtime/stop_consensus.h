#pragma once

#include <cstdint>
#include <optional>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata {

/// The state is saved, and a worker that was started anew waits to take part: what
/// PreemptionCheckpointHandler::check throws in all workers of an elastic strategy, after the same
/// step. Pass it to `Strategy::recover`, as the error of a lost worker.
class STRATA_API MembershipChanged : public Error {
 public:
  explicit MembershipChanged(int64_t finished_steps);
};

/// The step after which all workers save and end, or take in another one. One process agrees with
/// itself; those of a cluster do it through its key-value store: the step behind the one that the
/// first worker is in which knows of a reason.
class STRATA_API StopConsensus {
 public:
  virtual ~StopConsensus();

  /// Called by each worker after each of its steps, on one thread.
  /// @param finished_steps  Grows from call to call, by the same numbers on all workers.
  /// @param preempted  This worker was told to stop.
  /// @return the step to save after, once there is one; not below `finished_steps` when it is first
  ///         returned. When that step is reached, the next agreement begins.
  virtual std::optional<int64_t> agree(int64_t finished_steps, bool preempted) = 0;

  /// What the step that `agree` has returned is for. False: all end after it. True: they come
  /// together anew, since another worker waits to take part.
  virtual bool membership_changes() const { return false; }

  /// Called when the state is saved and this worker is about to end, as all others are.
  virtual void end() {}
};

}  // namespace strata
