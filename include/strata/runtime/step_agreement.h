#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "strata/core/export.h"

namespace strata {

class ReplicaGroup;

/// The step after which all workers save and end. One process agrees with itself; those of a
/// cluster do it through its key-value store: the step behind the one that the first preempted
/// worker is in.
class STRATA_API StepAgreement {
 public:
  virtual ~StepAgreement();

  /// Called by each worker after each of its steps, on one thread.
  /// @param finished_steps  Grows from call to call, by the same numbers on all workers.
  /// @param preempted  This worker was told to stop.
  /// @return the step to save after, once there is one; not below `finished_steps` when it is first
  ///         returned. When that step is reached, the next agreement begins.
  virtual std::optional<int64_t> agree(int64_t finished_steps, bool preempted) = 0;

  /// Called when the state is saved and this worker is about to end, as all others are.
  virtual void end() {}
};

namespace detail {

using MakeStepAgreement = std::function<std::shared_ptr<StepAgreement>()>;

/// How the processes of `group` agree, while `make` lives, which is the strategy's. All of them
/// make the agreements that they make in the same order.
STRATA_API void set_step_agreement(const ReplicaGroup& group,
                                   const std::shared_ptr<const MakeStepAgreement>& make);

/// Null: there is one process.
STRATA_API std::shared_ptr<StepAgreement> make_step_agreement(const ReplicaGroup& group);

}  // namespace detail

}  // namespace strata
