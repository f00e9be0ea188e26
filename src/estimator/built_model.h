#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "estimator/batch_fields.h"
#include "estimator/model_store.h"
#include "keras/training/fit_loop.h"
#include "strata/estimator/estimator.h"
#include "strata/graph/function.h"
#include "strata/optim/metrics.h"

namespace strata::estimator::detail {

/// The batches of a call: one for each replica a step, with a place that can be saved.
class BatchInput {
 public:
  BatchInput(Strategy& strategy, const InputFn& input_fn);

  const BatchFields& fields() const { return *fields_; }
  keras::detail::BatchFeed& feed() { return *feed_; }
  /// Returns the first batch, with which the model is built.
  /// @throws Error kInvalidArgument: the input has no batch.
  data::Example first();
  /// Unset: the input has ended.
  std::optional<DistributedDataset::Element> next();

 private:
  std::optional<BatchFields> fields_;
  std::optional<keras::detail::BatchFeed> feed_;
};

/// A model_fn with what its first call has made, for one mode, and its steps. Steps that are called
/// often are recorded as graphs and replayed (strata/graph/function.h), as those of `fit`.
class BuiltModel {
 public:
  using Element = DistributedDataset::Element;
  using Results = PerReplica<graph::FunctionCore::Result>;

  BuiltModel(const ModelFn& model_fn, Strategy& strategy, const RunConfig& config,
             const std::any& params, Mode mode, int64_t global_step, const BatchFields& fields,
             const data::Example& first);

  const EstimatorSpec& spec() const { return spec_; }
  ModelStore& store() { return store_; }

  /// The names of a step's results, without the loss: of predictions, or of scalars and behind
  /// them of so many histograms.
  struct Names {
    std::vector<std::string> all;
    size_t histograms = 0;
  };

  /// One step on all replicas. kTrain: the loss, then the scalars and the histograms; kEval:
  /// nothing; kPredict: the predictions.
  Results run(const Element& parts);
  /// kPredict: what the model_fn makes of features, outside of steps.
  EstimatorSpec predict(const Features& features);
  static const Names& names(const graph::FunctionCore::Result& result);

  /// kEval: the mean of the batches' losses.
  double mean_loss() const { return mean_loss_->result(); }

 private:
  EstimatorSpec call(const std::vector<at::Tensor>& fields, ModelContext& context) const;
  void check(const EstimatorSpec& spec) const;
  std::vector<at::Tensor> step(const std::vector<at::Tensor>& fields,
                               graph::FunctionCore::Structured& structure);

  const ModelFn& model_fn_;
  const BatchFields& fields_;
  ModelStore store_;
  EstimatorSpec spec_;
  std::optional<metrics::Mean> mean_loss_;
  std::unique_ptr<graph::FunctionCore> function_;  // null: steps run as they are written
};

}  // namespace strata::estimator::detail
