#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/estimator/features.h"
#include "strata/estimator/hooks.h"

namespace strata::estimator {

/// What a model_fn is called for. Source: tf.estimator.ModeKeys.
enum class Mode { kTrain, kEval, kPredict };

/// A metric of `evaluate`; ModelContext makes them.
struct EvalMetric {
  std::string name;
  std::function<void()> update;   ///< Called by each replica in each step.
  std::function<double()> value;  ///< Called outside of steps, over all replicas.
};

/// How the replicas' losses become one.
enum class LossOverReplicas {
  kMean,  ///< A replica's loss is the mean of its rows: rows of all replicas count the same.
  kSum,   ///< It is their sum.
};

using Hooks = std::vector<std::shared_ptr<SessionRunHook>>;

/// A signature of an exported model: which predictions it gives, under which names.
/// Source: tf.estimator.export.ExportOutput.
struct ExportOutput {
  std::string method = "predict";  ///< "predict", "classify" or "regress"
  /// Keys of predictions by the outputs' names; empty: all, under their own names.
  std::map<std::string, std::string> outputs = {};
};

/// What a model_fn makes of a batch. All may be filled in every mode; what the mode does not need
/// is ignored. Required: kTrain: loss and train_op; kEval: loss; kPredict: predictions.
/// Source: tf.estimator.EstimatorSpec.
struct EstimatorSpec {
  Features predictions = {};  ///< By name, `[rows, ...]` each; texts may be among them.
  at::Tensor loss = {};       ///< One element.
  LossOverReplicas loss_over_replicas = LossOverReplicas::kMean;
  std::function<void()> train_op = {};  ///< Updates the variables: ModelContext::minimize.
  std::vector<EvalMetric> eval_metrics = {};
  /// Signatures by name. Empty: `serving_default` has all predictions. A single one is
  /// `serving_default`, too; of several one must be called so.
  std::map<std::string, ExportOutput> export_outputs = {};

  // Those of the first call (ModelContext::building) are used.
  Hooks training_chief_hooks = {};
  Hooks training_hooks = {};
  Hooks evaluation_hooks = {};
  Hooks prediction_hooks = {};
};

}  // namespace strata::estimator
