#pragma once

#include <functional>
#include <utility>

#include "estimator/built_model.h"
#include "strata/estimator/hooks.h"

namespace strata::estimator::detail {

/// The hooks of a call, and its steps between their `before_run` and `after_run`: the loop that
/// train, evaluate and predict have in common.
class HookedSteps {
 public:
  HookedSteps(Session& session, Hooks hooks) : session_(session), hooks_(std::move(hooks)) {}

  void begin() { tell(&SessionRunHook::begin); }
  void created() { tell(&SessionRunHook::after_create_session); }
  void end() { tell(&SessionRunHook::end); }

  /// Tells the hooks of a step that was made.
  using Made = std::function<void(const StepResults& results)>;
  /// A step with the next batch. @param run  Makes it, and calls `made`; false: there is no step.
  /// @return false: a hook has asked to stop, the input has ended, or `run` made none.
  bool step(BatchInput& input,
            const std::function<bool(const BuiltModel::Element& batch, const Made& made)>& run) {
    if (session_.stop_requested()) return false;
    tell(&SessionRunHook::before_run);
    const auto batch = input.next();
    return batch && run(*batch, [this](const StepResults& results) {
             tell(&SessionRunHook::after_run, results);
           });
  }

 private:
  template <typename Call, typename... Arguments>
  void tell(Call call, Arguments&... arguments) {
    for (const auto& hook : hooks_) ((*hook).*call)(session_, arguments...);
  }

  Session& session_;
  const Hooks hooks_;
};

}  // namespace strata::estimator::detail
