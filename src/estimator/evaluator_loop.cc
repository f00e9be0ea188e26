#include "estimator/evaluator_loop.h"

#include <algorithm>

#include "estimator/evaluate_and_export.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"

namespace strata::estimator::detail {
namespace {

/// Training removes old checkpoints: one that disappears while it is read is passed over.
bool evaluate_newest(Estimator& estimator, const EvalSpec& spec, std::optional<int64_t> max_steps,
                     TrainAndEvaluateResult& result) {
  const auto newest = estimator.latest_checkpoint();
  try {
    return evaluate_and_export(estimator, spec, max_steps, result);
  } catch (const Error&) {
    if (!newest || file_system_of(*newest).info(*newest)) throw;
    return true;
  }
}

/// How often a waiting evaluator says so.
constexpr double kWarningSecs = 600;
/// An evaluator with throttle_secs 0 looks so often.
constexpr double kShortestWait = 0.05;

}  // namespace

TrainAndEvaluateResult run_evaluator(Estimator& estimator, const EvalSpec& spec,
                                     std::optional<int64_t> max_steps,
                                     const std::function<void(double)>& sleep) {
  if (spec.start_delay_secs > 0) sleep(spec.start_delay_secs);
  TrainAndEvaluateResult result;
  std::optional<double> warned_at;
  while (true) {
    const RunConfig& config = estimator.config();
    const double began = config.now();
    // Asked before the newest checkpoint is: behind the end there is no newer one.
    const auto finished = finished_step(estimator.model_dir());
    if (!evaluate_newest(estimator, spec, max_steps, result) &&
        (!warned_at || began >= *warned_at + kWarningSecs)) {
      STRATA_LOG(kWarning)
          << "[estimator] train_and_evaluate: the evaluator finds no new checkpoint in "
          << estimator.model_dir() << "; it looks again every " << spec.throttle_secs << " s";
      warned_at = began;
    }
    if (result.evaluation) {
      const int64_t step = result.evaluation->global_step;
      if (max_steps ? step >= *max_steps : finished == step) return result;
    }
    sleep(std::max(spec.throttle_secs - (config.now() - began), kShortestWait));
  }
}

}  // namespace strata::estimator::detail
