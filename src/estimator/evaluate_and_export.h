#pragma once

#include <string>

#include "strata/estimator/train_and_evaluate.h"

namespace strata::estimator::detail {

/// Evaluates the newest checkpoint, if it is not the one of `result`, and has it exported.
/// @return false: there is no other checkpoint.
bool evaluate_and_export(Estimator& estimator, const EvalSpec& spec,
                         std::optional<int64_t> max_steps, TrainAndEvaluateResult& result);

}  // namespace strata::estimator::detail
