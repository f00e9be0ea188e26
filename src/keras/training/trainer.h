#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/keras/model.h"
#include "strata/optim/metrics.h"

namespace strata::keras::detail {

/// What `compile` leaves behind: the losses, metrics and optimizer of a model, bound to its outputs
/// once the shapes are known, and the arithmetic of a step. What happens around the steps is
/// fit_loop.h's.
class Trainer {
 public:
  Trainer(ModelImpl& model, CompileOptions options);

  const CompileOptions& options() const { return options_; }
  optimizers::Optimizer& optimizer() const { return *options_.optimizer; }

  /// Builds what is not built yet (weights, the optimizer's slots, metrics), for batches like this.
  /// @throws Error kInvalidArgument: fields that do not fit the model.
  void prepare(const data::Example& batch);
  bool prepared() const { return prepared_; }

  Batch unpack(const data::Example& batch) const;

  StepLoss compute_loss(const Batch& batch, const LayerImpl::Outputs& outputs,
                        const Tensors& added);
  void update_metrics(const Batch& batch, const LayerImpl::Outputs& outputs, const StepLoss& loss);
  void minimize(const StepLoss& loss);

  void reset_metrics();
  /// Means since the last reset, over all replicas. Where there are several processes, each asks.
  Logs::Values results() const;
  /// The results of now, for all processes; what they need to do together is done in this call, which
  /// each makes. On GPUs the host does not wait for them unless a callback looks.
  Logs shared_results();

  /// Weights by class number, multiplied into the sample weights; empty: none.
  void set_class_weight(const std::map<int64_t, double>& weights);

  /// Weights, optimizer, metrics in the middle of an epoch, by the names of a checkpoint.
  std::vector<std::pair<std::string, Tracked>> state();

 private:
  /// An output with what it is compared with.
  struct Output {
    std::string name;
    losses::Loss loss = {};
    double weight = 1;
    std::vector<metrics::Metric> metrics = {};
    std::vector<metrics::Metric> weighted_metrics = {};
    std::optional<metrics::Mean> mean_loss = {};  ///< For each of several outputs.
  };

  /// From the metrics' variables.
  Logs::Values read_results() const;
  /// Of the loss and all metrics.
  std::vector<Variable> metric_variables() const;
  void bind_outputs(const std::vector<Shape>& labels, const std::vector<Shape>& outputs);
  at::Tensor sample_weight(const Batch& batch, size_t output) const;

  ModelImpl& model_;
  CompileOptions options_;
  bool prepared_ = false;
  size_t num_inputs_ = 1;
  std::vector<Output> outputs_;
  std::optional<metrics::Mean> mean_loss_;
  /// Whether `read_results` makes no call that processes make together; known after the first.
  std::optional<bool> reads_variables_alone_;
  std::vector<Weight> regularized_;
  std::vector<Weight> constrained_;
  std::map<int64_t, double> class_weights_;
  at::Tensor class_weight_;  ///< The same, by class.
};

}  // namespace strata::keras::detail
