#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/estimator/estimator.h"

namespace strata::estimator {

struct EarlyStoppingOptions {
  std::string eval_dir = {};  ///< Empty: the estimator's eval_dir().
  int64_t min_steps = 0;      ///< Evaluations of earlier steps do not count.
  /// Exactly one of the two is above 0. Workers of a strategy look together, so they need steps.
  double run_every_secs = 60;
  int64_t run_every_steps = 0;
};

/// Ends training where `should_stop()` is true; the chief asks.
/// Source: tf.estimator.experimental.make_early_stopping_hook.
STRATA_API std::shared_ptr<SessionRunHook> make_early_stopping_hook(
    std::function<bool()> should_stop, const EarlyStoppingOptions& options = {});

/// Ends training at `last_step`, as StopAtStepHook does. With parameter servers workers other than
/// the chief end when a checkpoint has that step, so that none is done before the chief has saved:
/// they look behind each step from `last_step` on, and wait so long where it does not exist yet.
/// Source: tf.estimator.experimental.make_stop_at_checkpoint_step_hook.
STRATA_API std::shared_ptr<SessionRunHook> make_stop_at_checkpoint_step_hook(
    const Estimator& estimator, int64_t last_step, double wait_after_file_check_secs = 30);

// They read evaluations from the events in eval_dir, where values are float32: 0.6 is written as a
// little more.
// @throws Error kNotFound, when they look: an evaluation without `metric`.

/// Ends training where the best (smallest, or largest) value of `metric` is `max_steps_without`
/// steps old.
/// Source: tf.estimator.experimental.stop_if_no_decrease_hook and so on.
STRATA_API std::shared_ptr<SessionRunHook> stop_if_no_decrease_hook(
    const Estimator& estimator, const std::string& metric, int64_t max_steps_without,
    const EarlyStoppingOptions& options = {});
STRATA_API std::shared_ptr<SessionRunHook> stop_if_no_increase_hook(
    const Estimator& estimator, const std::string& metric, int64_t max_steps_without,
    const EarlyStoppingOptions& options = {});

/// Ends training where a value of `metric` was beyond `threshold`.
STRATA_API std::shared_ptr<SessionRunHook> stop_if_higher_hook(
    const Estimator& estimator, const std::string& metric, double threshold,
    const EarlyStoppingOptions& options = {});
STRATA_API std::shared_ptr<SessionRunHook> stop_if_lower_hook(
    const Estimator& estimator, const std::string& metric, double threshold,
    const EarlyStoppingOptions& options = {});

}  // namespace strata::estimator
