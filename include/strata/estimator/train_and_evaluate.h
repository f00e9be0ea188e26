#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/estimator/estimator.h"
#include "strata/estimator/exporter.h"

namespace strata::estimator {

/// What to train. Source: tf.estimator.TrainSpec.
struct TrainSpec {
  InputFn input_fn;
  std::optional<int64_t> max_steps =
      {};  ///< The global step to end at; unset: until the input ends.
  Hooks hooks = {};
  Listeners saving_listeners = {};
};

/// What to evaluate, and how often. Source: tf.estimator.EvalSpec.
struct EvalSpec {
  InputFn input_fn;
  std::optional<int64_t> steps = 100;  ///< Batches; unset: all.
  std::string name = {};
  Hooks hooks = {};
  std::vector<std::shared_ptr<Exporter>> exporters = {};
  /// An evaluator of a cluster waits so long before its first evaluation.
  double start_delay_secs = 120;
  /// Evaluations begin so far apart at least.
  double throttle_secs = 600;
};

/// The last evaluation, and the paths that its exporters wrote, in their order (empty: nothing).
struct TrainAndEvaluateResult {
  std::optional<Evaluation> evaluation = {};  ///< Unset: nothing was trained.
  std::vector<std::string> exports = {};
};

/// Trains, and evaluates and exports checkpoints meanwhile. RunConfig says how often these are
/// saved.
///
/// One process: evaluations are made behind saves (never behind the first one of a call, which is
/// what it began with), and at the end. A cluster (TF_CONFIG), where each task calls it: the chief
/// and the workers train with a MultiWorkerMirroredStrategy, the chief has the listeners, and the
/// task `evaluator` evaluates, until it has evaluated max_steps, or, without that, the last step.
/// In a cluster with tasks `ps` these serve until the others have ended, and chief and workers train
/// with a ParameterServerStrategy, which is made here if the config has none.
/// @return In a cluster the evaluator's; nothing in the others.
/// @throws Error  kInvalidArgument: max_steps or steps below 1, negative times, exporters without
///   different names, a cluster without a strategy, or with another one. As Estimator::train and
///   evaluate; ParameterServerStrategy.
/// Source: tf.estimator.train_and_evaluate.
STRATA_API TrainAndEvaluateResult train_and_evaluate(Estimator& estimator,
                                                     const TrainSpec& train_spec,
                                                     const EvalSpec& eval_spec);

}  // namespace strata::estimator
