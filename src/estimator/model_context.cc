#include "strata/estimator/model_context.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "estimator/model_store.h"
#include "strata/optim/metrics.h"
#include "strata/strategies/strategy.h"

namespace strata::estimator {
namespace {

/// With the batch's dimension open.
keras::Shape metric_shape(const at::Tensor& values) {
  if (!values.defined() || values.dim() == 0) return {};
  keras::Shape shape = values.sizes().vec();
  shape[0] = keras::kNone;
  return shape;
}

}  // namespace

ModelContext::ModelContext(detail::ModelStore& store, int64_t rows, bool building)
    : store_(store), rows_(rows), building_(building) {}
ModelContext::~ModelContext() = default;

Mode ModelContext::mode() const { return store_.mode(); }
const RunConfig& ModelContext::config() const { return store_.config(); }
int64_t ModelContext::global_step() const { return store_.global_step(); }
int ModelContext::num_replicas_in_sync() const { return store_.strategy().num_replicas_in_sync(); }
const std::any& ModelContext::params_any() const { return store_.params(); }

const std::any* ModelContext::find(const std::string& name, const std::type_info& type) const {
  return store_.find(name, type, building_);
}

void ModelContext::add_layer(const std::string& name, const keras::Layer& layer, std::any handle) {
  store_.add(name, std::move(handle));
  store_.add_layer(name, layer);
}

Variable ModelContext::variable(const std::string& name, const std::function<at::Tensor()>& initial,
                                VariableOptions options) {
  if (const std::any* found = find(name, typeid(Variable))) return *std::any_cast<Variable>(found);
  options.name = name;
  const Variable made(initial(), std::move(options));
  store_.add(name, made);
  store_.add_variable(made);
  return made;
}

optimizers::Optimizer& ModelContext::optimizer(
    const std::function<optimizers::AnyOptimizer()>& make, const std::string& name,
    const std::string& prefix) {
  if (const std::any* found = find(name, typeid(optimizers::AnyOptimizer))) {
    return **std::any_cast<optimizers::AnyOptimizer>(found);
  }
  const optimizers::AnyOptimizer made = make();
  store_.add(name, made);
  store_.add_optimizer(name, made, prefix);
  return *made;
}

std::function<void()> ModelContext::minimize(optimizers::Optimizer& optimizer,
                                             const at::Tensor& loss,
                                             LossOverReplicas over_replicas) const {
  const bool alone = num_replicas_in_sync() == 1;
  return [&optimizer, loss, over_replicas, rows = rows_, alone] {
    const at::Tensor scalar = loss.dim() == 0 ? loss : loss.reshape({});
    if (over_replicas == LossOverReplicas::kSum || alone) return optimizer.minimize(scalar);
    optimizer.minimize(scalar * static_cast<double>(rows), {.weight = static_cast<double>(rows)});
  };
}

void ModelContext::add_metric(const std::string& name, metrics::Metric metric,
                              const at::Tensor& y_true, const at::Tensor& y_pred) {
  metric.build(metric_shape(y_true), metric_shape(y_pred));
  store_.add("metric " + name, metric);
  store_.add_reset([metric]() mutable { metric.reset_state(); });
}

EvalMetric ModelContext::of_metric(const std::string& name, const metrics::Metric& metric,
                                   const at::Tensor& y_true, const at::Tensor& y_pred,
                                   const at::Tensor& sample_weight) {
  return {
      .name = name,
      .update = [metric = metric, y_true, y_pred = y_pred.detach(),
                 sample_weight]() mutable { metric.update_state(y_true, y_pred, sample_weight); },
      .value = [metric] { return metric.result(); }};
}

EvalMetric ModelContext::mean(const std::string& name, const at::Tensor& values,
                              const at::Tensor& weight) {
  const std::string key = "metric " + name;
  const std::any* found = find(key, typeid(metrics::Mean));
  if (found == nullptr) {
    metrics::Mean made(name);
    made.build();
    store_.add(key, made);
    store_.add_reset([made]() mutable { made.reset(); });
    found = find(key, typeid(metrics::Mean));
  }
  metrics::Mean mean = *std::any_cast<metrics::Mean>(found);
  return {
      .name = name,
      .update = [mean, values = values.detach(), weight]() mutable { mean.update(values, weight); },
      .value = [mean] { return mean.result(); }};
}

at::Tensor ModelContext::regularization_loss() const {
  at::Tensor sum = store_.penalties();
  for (const at::Tensor& added : added_losses_) sum = sum.defined() ? sum + added : added;
  return sum;
}

void ModelContext::scalar(const std::string& name, const at::Tensor& value) {
  STRATA_CHECK(value.numel() == 1, kInvalidArgument, "[estimator] ModelContext::scalar: got '",
               name, "' with ", value.numel(), " elements; expected one");
  scalars_.emplace_back(name, value.detach().reshape({}));
}

void ModelContext::histogram(const std::string& name, const at::Tensor& values) {
  STRATA_CHECK(values.defined(), kInvalidArgument, "[estimator] ModelContext::histogram: got '",
               name, "' with an undefined tensor; expected numbers");
  histograms_.emplace_back(name, values.detach());
}

}  // namespace strata::estimator
