#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "strata/estimator/train_and_evaluate.h"

namespace strata::estimator::detail {

/// What the evaluator of a cluster does: evaluates the newest checkpoint, if it is another than the
/// last one, every `throttle_secs`, until it has evaluated `max_steps`, or, without that, the step
/// at which training has ended.
/// @param sleep  Waits so many seconds.
TrainAndEvaluateResult run_evaluator(Estimator& estimator, const EvalSpec& spec,
                                     std::optional<int64_t> max_steps,
                                     const std::function<void(double)>& sleep);

/// The step at which the last call of train in `model_dir` ended; unset: none has, or one is at
/// work.
std::optional<int64_t> finished_step(const std::string& model_dir);

}  // namespace strata::estimator::detail
