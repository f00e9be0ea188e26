#include "strata/estimator/model_to_estimator.h"

#include <ATen/TensorOperators.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/join.h"
#include "keras/graph/node.h"
#include "strata/core/error.h"
#include "strata/keras/saving.h"

namespace strata::estimator {
namespace {

constexpr const char* kModelName = "keras_model";

/// The entry for output `i` of what a program gave for all, for each, or by name.
template <typename T>
const T* entry_of(const keras::PerOutput<T>& values, size_t i, const std::string& name) {
  const auto found = values.by_name().find(name);
  if (found != values.by_name().end()) return &found->second;
  if (values.values().empty()) return nullptr;
  return &values.values().at(values.one_for_each() ? i : 0);
}

const keras::MetricList* entry_of(const keras::PerOutputMetrics& metrics, size_t i,
                                  const std::string& name) {
  const auto found = metrics.by_name().find(name);
  if (found != metrics.by_name().end()) return &found->second;
  if (metrics.each().empty()) return nullptr;
  return &metrics.each().at(metrics.each().size() > 1 ? i : 0);
}

std::vector<std::string> layer_names(const std::vector<keras::SymbolicTensor>& tensors) {
  std::vector<std::string> names;
  for (const keras::SymbolicTensor& tensor : tensors) {
    names.push_back(tensor.node()->layer.name());
  }
  return names;
}

/// A compiled metric: how it is called, and how another one like it is made.
struct CompiledMetric {
  std::string name;
  metrics::Metric like;
  Json config;
};

/// An output with what it is compared with.
struct CompiledOutput {
  std::string name;
  losses::Loss loss = {};
  double weight = 1;
  std::vector<CompiledMetric> metrics = {};
};

/// The model_fn of a Keras model.
class KerasModelFn {
 public:
  explicit KerasModelFn(const keras::Model& model)
      : like_(model),
        config_(keras::model_to_config(model)),
        weights_(model.get_weights()),
        optimizer_(keras::to_config(*model.compiled()->optimizer)),
        inputs_(layer_names(model.inputs())) {
    const keras::CompileOptions& compiled = *model.compiled();
    const std::vector<std::string> names = layer_names(model.outputs());
    for (size_t i = 0; i < names.size(); ++i) {
      CompiledOutput output{.name = names[i]};
      if (const auto* loss = entry_of(compiled.loss, i, names[i])) output.loss = *loss;
      if (const auto* weight = entry_of(compiled.loss_weights, i, names[i])) {
        output.weight = *weight;
      }
      if (const auto* list = entry_of(compiled.metrics, i, names[i])) {
        for (const metrics::Metric& metric : *list) {
          const Json config = metrics::to_config(metric);
          const std::string name = config.is_string() ? config.as_string() : metric.name();
          output.metrics.push_back({.name = names.size() > 1 ? names[i] + '_' + name : name,
                                    .like = metric,
                                    .config = config});
        }
      }
      outputs_.push_back(std::move(output));
    }
  }

  EstimatorSpec operator()(const Features& features, const Labels& labels, Mode mode,
                           ModelContext& context) const {
    const keras::Tensors x = inputs_of(features);
    const keras::Model model =
        context.layer<keras::Model>(kModelName, context.building() ? make_model(x) : like_);
    const keras::Tensors y = model.call(x, {.training = mode == Mode::kTrain});
    EstimatorSpec spec;
    for (size_t i = 0; i < outputs_.size(); ++i) spec.predictions[outputs_[i].name] = {y.at(i)};
    if (mode == Mode::kPredict) return spec;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const CompiledOutput& output = outputs_[i];
      const at::Tensor& label = label_of(labels, output.name);
      if (output.loss) {
        const at::Tensor value = output.loss(label, y[i]) * output.weight;
        spec.loss = spec.loss.defined() ? spec.loss + value : value;
      }
      for (const CompiledMetric& metric : output.metrics) {
        spec.eval_metrics.push_back(context.metric<metrics::Metric>(
            metric.name, label, y[i], {},
            context.building() ? metrics::metric_from_config(metric.config) : metric.like));
      }
    }
    const at::Tensor added = context.regularization_loss();
    if (added.defined()) spec.loss = spec.loss.defined() ? spec.loss + added : added;
    if (mode != Mode::kTrain) return spec;
    spec.train_op = context.minimize(context.optimizer([this]() -> optimizers::AnyOptimizer {
      return keras::optimizer_from_config(optimizer_);
    }),
                                     spec.loss);
    return spec;
  }

 private:
  keras::Model make_model(const keras::Tensors& x) const {
    const keras::Model model = keras::model_from_config(config_);
    (void)model.call(x, {});  // builds what is not built yet
    model.set_weights(weights_);
    return model;
  }

  keras::Tensors inputs_of(const Features& features) const {
    if (inputs_.size() <= 1 && features.size() == 1) return {features.begin()->second.values};
    keras::Tensors x;
    for (const std::string& name : inputs_) {
      const auto found = features.find(name);
      STRATA_CHECK(found != features.end(), kInvalidArgument,
                   "[estimator] model_to_estimator: got features ",
                   join(features, [](const auto& each) { return each.first; }),
                   "; expected one for each of the model's inputs, ", join(inputs_));
      x.push_back(found->second.values);
    }
    return x;
  }

  const at::Tensor& label_of(const Labels& labels, const std::string& output) const {
    if (outputs_.size() == 1 && labels.by_name().size() == 1) return labels.value();
    const auto found = labels.by_name().find(output);
    STRATA_CHECK(found != labels.by_name().end(), kInvalidArgument,
                 "[estimator] model_to_estimator: got labels ",
                 join(labels.by_name(), [](const auto& each) { return each.first; }),
                 "; expected one for each of the model's outputs, ",
                 join(outputs_, &CompiledOutput::name));
    return found->second.values;
  }

  keras::Model like_;
  Json config_;
  keras::Tensors weights_;
  Json optimizer_;
  std::vector<std::string> inputs_;
  std::vector<CompiledOutput> outputs_;
};

}  // namespace

Estimator model_to_estimator(const keras::Model& model, EstimatorOptions options) {
  STRATA_CHECK(model.compiled() != nullptr, kFailedPrecondition,
               "[estimator] model_to_estimator: got model '", model.name(),
               "', which is not compiled; call compile");
  STRATA_CHECK(model->built(), kFailedPrecondition, "[estimator] model_to_estimator: got model '",
               model.name(), "', which is not built; give it an Input, or call it");
  const auto model_fn = std::make_shared<const KerasModelFn>(model);
  return Estimator(
      [model_fn](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
        return (*model_fn)(features, labels, mode, context);
      },
      std::move(options));
}

}  // namespace strata::estimator
