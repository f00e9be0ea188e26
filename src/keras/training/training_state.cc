#include "keras/training/training_state.h"

#include <algorithm>

#include "keras_files/optimizer_layout.h"
#include "strata/keras/optimizer_state.h"
#include "strata/keras/saving.h"
#include "strata/optim/loss_scale_optimizer.h"

namespace strata::keras::detail {
namespace {

/// One value as itself, several as a list or by name; none as null.
template <typename T, typename ToJson>
Json per_output(const std::vector<T>& values, const std::map<std::string, T>& by_name, bool list,
                const ToJson& to_json) {
  if (!by_name.empty()) {
    Json json = Json::object();
    for (const auto& [name, value] : by_name) json.set(name, to_json(value));
    return json;
  }
  if (values.empty()) return {};
  if (!list) return to_json(values[0]);
  Json json = Json::array();
  for (const T& value : values) json.push_back(to_json(value));
  return json;
}

template <typename T>
Json to_json(const PerOutput<T>& values) {
  return per_output(values.values(), values.by_name(), values.one_for_each(), [](const T& value) {
    using keras::to_config;
    return to_config(value);
  });
}

Json to_json(const PerOutputMetrics& metrics) {
  const auto list = [](const MetricList& all) {
    Json json = Json::array();
    for (const metrics::Metric& metric : all) json.push_back(to_config(metric));
    return json;
  };
  if (metrics.each().size() == 1 && metrics.each()[0].empty()) return {};
  return per_output(metrics.each(), metrics.by_name(), metrics.each().size() > 1, list);
}

losses::Loss to_loss(const Json& json) {
  losses::Loss loss;
  if (!json.is_null()) from_config(json, loss);
  return loss;
}

/// Objects of Keras's have a class_name; other objects are by output.
bool is_by_name(const Json& json) { return json.is_object() && json.find("class_name") == nullptr; }

template <typename T, typename FromJson>
PerOutput<T> from_json(const Json& json, const FromJson& from) {
  if (json.is_null()) return {};
  if (json.is_array()) {
    std::vector<T> each;
    for (const Json& element : json.as_array()) each.push_back(from(element));
    return each;
  }
  if (is_by_name(json)) {
    std::map<std::string, T> by_name;
    for (const auto& [name, value] : json.as_object()) by_name.emplace(name, from(value));
    return by_name;
  }
  return PerOutput<T>(from(json));
}

MetricList to_metrics(const Json& json) {
  if (json.is_null()) return {};
  if (!json.is_array()) return {metrics::metric_from_config(json)};
  MetricList list;
  for (const Json& element : json.as_array()) {
    list.push_back(metrics::metric_from_config(element));
  }
  return list;
}

PerOutputMetrics to_per_output_metrics(const Json& json) {
  if (json.is_null()) return {};
  if (is_by_name(json)) {
    std::map<std::string, MetricList> by_name;
    for (const auto& [name, value] : json.as_object()) by_name.emplace(name, to_metrics(value));
    return by_name;
  }
  const bool lists = json.is_array() && !json.as_array().empty() && json.as_array()[0].is_array();
  if (!lists) return to_metrics(json);
  std::vector<MetricList> each;
  for (const Json& list : json.as_array()) each.push_back(to_metrics(list));
  return each;
}

const Json& member(const Json& json, const char* name) {
  static const Json null;
  const Json* found = json.find(name);
  return found == nullptr ? null : *found;
}

/// True if `state` is that of a LossScaleOptimizer around the optimizer of `config`. Under the
/// policy mixed_float16 Keras saves the state of the one and the config of the other.
bool has_loss_scale(const Json& config, const std::vector<Variable>& variables,
                    const std::vector<at::Tensor>& state) {
  if (parse_object(config, "an optimizer").class_name == "LossScaleOptimizer") return false;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::string> names;
  for (const Variable& variable : variables) {
    shapes.push_back(variable.sizes().vec());
    names.push_back(variable.name());
  }
  const auto slots = keras_files::optimizer_slots(config, shapes, names);
  Json inner = Json::object();
  inner.set("inner_optimizer", config);
  const auto scaled = keras_files::optimizer_slots(
      make_object("keras.optimizers", "LossScaleOptimizer", std::move(inner)), shapes, names);
  const auto untrained = std::ranges::count_if(scaled, [](const auto& slot) {
    return slot.kind.ends_with("iteration") || slot.kind.ends_with("learning_rate");
  });
  return state.size() != slots.size() &&
         (state.size() == scaled.size() || state.size() == static_cast<size_t>(untrained));
}

}  // namespace

TrainingState training_state(const Model& model) {
  const CompileOptions* options = model.compiled();
  if (options == nullptr) return {};
  Json config = Json::object();
  config.set("optimizer", to_config(*options->optimizer));
  config.set("loss", to_json(options->loss));
  config.set("loss_weights", to_json(options->loss_weights));
  config.set("metrics", to_json(options->metrics));
  config.set("weighted_metrics", to_json(options->weighted_metrics));
  config.set("run_eagerly", options->run_eagerly);
  config.set("steps_per_execution", options->steps_per_execution);
  config.set("jit_compile", options->jit_compile);
  const std::vector<Variable> variables = options->optimizer->variables().empty()
                                              ? std::vector<Variable>()
                                              : model->trainable_variables();
  return {.compile_config = std::move(config),
          .optimizer = export_state(*options->optimizer, variables)};
}

void restore_training(const Model& model, const Json& config,
                      const std::vector<at::Tensor>& optimizer) {
  CompileOptions options;
  options.optimizer = optimizer_from_config(config.at("optimizer"));
  if (has_loss_scale(to_config(*options.optimizer), model->trainable_variables(), optimizer)) {
    options.optimizer =
        std::make_shared<optimizers::LossScaleOptimizer>(options.optimizer.shared());
  }
  options.loss = from_json<losses::Loss>(member(config, "loss"), to_loss);
  options.loss_weights = from_json<double>(member(config, "loss_weights"),
                                           [](const Json& json) { return json.as_double(); });
  options.metrics = to_per_output_metrics(member(config, "metrics"));
  options.weighted_metrics = to_per_output_metrics(member(config, "weighted_metrics"));
  const Json& steps = member(config, "steps_per_execution");
  if (!steps.is_null()) options.steps_per_execution = steps.as_int();
  const Json& eagerly = member(config, "run_eagerly");
  options.run_eagerly = eagerly.is_bool() && eagerly.as_bool();
  model.compile(options);
  restore_optimizer(model, optimizer);
}

void restore_optimizer(const Model& model, const std::vector<at::Tensor>& state) {
  const std::vector<Variable> variables = model->trainable_variables();
  if (model.compiled() == nullptr || state.empty() || variables.empty()) return;
  optimizers::Optimizer& optimizer = model.optimizer();
  // Compiled and never trained: there is nothing but the count of no steps, and the rate.
  if (state.size() > 2 && optimizer.variables().empty()) optimizer.build(variables);
  import_state(optimizer, optimizer.variables().empty() ? std::vector<Variable>() : variables,
               state);
}

std::optional<OptimizerSize> optimizer_size(const Model& model) {
  const CompileOptions* options = model.compiled();
  if (options == nullptr || options->optimizer->variables().empty()) return std::nullopt;
  OptimizerSize size{.params = 0, .bytes = 0};
  for (const at::Tensor& tensor : export_state(*options->optimizer, model->trainable_variables())) {
    size.params += tensor.numel();
    size.bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return size;
}

}  // namespace strata::keras::detail
