#pragma once

#include <cstdint>
#include <optional>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata {

/// Thrown when the state is saved and a restarted worker waits to join:
/// PreemptionCheckpointHandler::check throws it in all workers of an elastic strategy, after the
/// same step. Pass it to `Strategy::recover`, as the error of a lost worker.
class STRATA_API MembershipChanged : public Error {
 public:
  explicit MembershipChanged(int64_t finished_steps);
};

/// The consensus on the step after which all workers save and end, or admit another one. A single
/// process decides by itself; the workers of a cluster use its key-value store: the step after the
/// one in which the first worker has received a request.
class STRATA_API StopConsensus {
 public:
  virtual ~StopConsensus();

  /// Called by each worker after each of its steps, on one thread.
  /// @param finished_steps  Grows from call to call, by the same numbers on all workers.
  /// @param preempted  This worker has received a stop request.
  /// @return the step to save after, when it is decided; not below `finished_steps` when it is
  ///         first returned. When that step is reached, the next consensus begins.
  virtual std::optional<int64_t> agree(int64_t finished_steps, bool preempted) = 0;

  /// The reason of the step that `agree` has returned. False: all end after it. True: the group is
  /// re-formed, since another worker waits to join.
  virtual bool membership_changes() const { return false; }

  /// Called when the state is saved and this worker is about to end, like all others.
  virtual void end() {}
};

}  // namespace strata
