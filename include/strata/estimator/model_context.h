#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/estimator/estimator_spec.h"
#include "strata/estimator/input.h"
#include "strata/keras/layer.h"
#include "strata/keras/metric.h"
#include "strata/optim/optimizer.h"
#include "strata/runtime/variable.h"

namespace strata::estimator {

class RunConfig;
namespace detail {
class ModelStore;
}

/// What a model_fn keeps from call to call: layers, variables, optimizers and metrics, by name. The
/// first call makes them; later ones, on each replica in each step, find them:
///
///     EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
///                            ModelContext& context) {
///       const at::Tensor x = features.at("x").values;
///       const at::Tensor logits = context.layer<layers::Dense>("logits", 10)(x);
///       ...
///     }
///
/// The first call (`building`) is made with the first batch before all steps, outside of replica
/// functions, without gradients and as inference; its train_op is not called. It decides what
/// exists: a name that is asked for in a later call alone is an error.
/// Threads: each call has its own.
class STRATA_API ModelContext {
 public:
  ModelContext(detail::ModelStore& store, int64_t rows, bool building);
  ~ModelContext();
  ModelContext(const ModelContext&) = delete;
  ModelContext& operator=(const ModelContext&) = delete;

  Mode mode() const;
  bool building() const { return building_; }
  const RunConfig& config() const;
  int64_t global_step() const;  ///< When the call of train, evaluate or predict began.
  int num_replicas_in_sync() const;
  /// The rows of this replica's batch.
  int64_t rows() const { return rows_; }

  /// What EstimatorOptions::params holds. @throws Error kInvalidArgument: nothing, or another type.
  template <class T>
  const T& params() const {
    const T* found = std::any_cast<T>(&params_any());
    STRATA_CHECK(found != nullptr, kInvalidArgument,
                 "[estimator] ModelContext: got params of type ", params_any().type().name(),
                 "; the model_fn asks for ", typeid(T).name(),
                 ". Pass them to Estimator (EstimatorOptions::params)");
    return *found;
  }

  /// The layer of this name: an L, made with `arguments` in the first call. Its variables are
  /// `<name>/kernel` and so on.
  /// @throws Error  kInvalidArgument: the name is another class's. kFailedPrecondition: the first
  /// call has not made it.
  template <class L, class... Arguments>
  requires std::derived_from<L, keras::Layer> L layer(const std::string& name,
                                                      Arguments&&... arguments) {
    if (const std::any* found = find(name, typeid(L))) return *std::any_cast<L>(found);
    L made(std::forward<Arguments>(arguments)...);
    add_layer(name, made, made);
    return made;
  }

  /// The variable of this name, with the value of `initial()` at first. @throws as `layer`.
  Variable variable(const std::string& name, const std::function<at::Tensor()>& initial,
                    VariableOptions options = {});

  /// The optimizer of this name, which `make()` makes in the first call. It trains the trainable
  /// variables whose names begin with `prefix`: `context.optimizer([] { return optimizers::Adam();
  /// })`. @throws as `layer`.
  optimizers::Optimizer& optimizer(const std::function<optimizers::AnyOptimizer()>& make,
                                   const std::string& name = "optimizer",
                                   const std::string& prefix = {});

  /// A train_op: one step of the optimizer with the mean gradient of all replicas' rows, or (kSum)
  /// the sum of the replicas' gradients. Without rows, as at the end of unequal inputs, a replica
  /// adds nothing.
  std::function<void()> minimize(optimizers::Optimizer& optimizer, const at::Tensor& loss,
                                 LossOverReplicas over_replicas = LossOverReplicas::kMean) const;

  /// The metric of this name: an M, made with `arguments` in the first call. @throws as `layer`.
  template <class M, class... Arguments>
  requires std::derived_from<M, metrics::Metric> EvalMetric
  metric(const std::string& name, const at::Tensor& y_true, const at::Tensor& y_pred,
         const at::Tensor& sample_weight = {}, Arguments&&... arguments) {
    if (const std::any* found = find("metric " + name, typeid(metrics::Metric))) {
      return of_metric(name, *std::any_cast<metrics::Metric>(found), y_true, y_pred, sample_weight);
    }
    const M made(std::forward<Arguments>(arguments)...);
    add_metric(name, made, y_true, y_pred);
    return of_metric(name, made, y_true, y_pred, sample_weight);
  }
  /// The weighted mean of values over rows, as metrics::Mean::update takes them. Source:
  /// tf.metrics.mean.
  EvalMetric mean(const std::string& name, const at::Tensor& values, const at::Tensor& weight = {});

  /// A number of this step by name: for summaries, which are written every save_summary_steps, and
  /// for hooks.
  void scalar(const std::string& name, const at::Tensor& value);
  /// Numbers of this step by name: for summaries of how they are distributed, as `scalar`. They are
  /// kept until the step is over.
  void histogram(const std::string& name, const at::Tensor& values);

  /// The penalties of all weights with a regularizer, and what layers of this call have added to
  /// the loss, on this replica: a scalar to add to the spec's loss; undefined if there is nothing.
  at::Tensor regularization_loss() const;

  /// For steps: what layers add.
  std::vector<at::Tensor>& added_losses() { return added_losses_; }
  /// For steps. In the order of the calls.
  const std::vector<std::pair<std::string, at::Tensor>>& scalars() const { return scalars_; }
  const std::vector<std::pair<std::string, at::Tensor>>& histograms() const { return histograms_; }

 private:
  const std::any& params_any() const;
  const std::any* find(const std::string& name, const std::type_info& type) const;
  void add_layer(const std::string& name, const keras::Layer& layer, std::any handle);
  void add_metric(const std::string& name, metrics::Metric metric, const at::Tensor& y_true,
                  const at::Tensor& y_pred);
  static EvalMetric of_metric(const std::string& name, const metrics::Metric& metric,
                              const at::Tensor& y_true, const at::Tensor& y_pred,
                              const at::Tensor& sample_weight);

  detail::ModelStore& store_;
  int64_t rows_;
  bool building_;
  std::vector<std::pair<std::string, at::Tensor>> scalars_;
  std::vector<std::pair<std::string, at::Tensor>> histograms_;
  std::vector<at::Tensor> added_losses_;
};

/// A model: what it makes of a batch. Source: the model_fn of tf.estimator.Estimator.
using ModelFn = std::function<EstimatorSpec(const Features& features, const Labels& labels,
                                            Mode mode, ModelContext& context)>;

}  // namespace strata::estimator
