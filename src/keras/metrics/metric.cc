#include "strata/keras/metric.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <array>
#include <set>

#include "core/letter_case.h"
#include "keras/losses/rule.h"
#include "keras/metrics/registry.h"
#include "optim/metrics/mean_sums.h"
#include "runtime/context.h"
#include "strata/checkpoint/tracked.h"

namespace strata::metrics {
namespace {

using at::Tensor;

const std::vector<Registered>& registered() {
  static const std::vector<Registered> all = [] {
    std::vector<Registered> list;
    add_mean_metrics(list);
    add_confusion_metrics(list);
    add_auc(list);
    add_score_metrics(list);
    add_iou_metrics(list);
    return list;
  }();
  return all;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kAliases = {{
    {"bce", "BinaryCrossentropy"},
    {"BCE", "BinaryCrossentropy"},
    {"mse", "MeanSquaredError"},
    {"MSE", "MeanSquaredError"},
    {"mae", "MeanAbsoluteError"},
    {"MAE", "MeanAbsoluteError"},
    {"mape", "MeanAbsolutePercentageError"},
    {"MAPE", "MeanAbsolutePercentageError"},
    {"msle", "MeanSquaredLogarithmicError"},
    {"MSLE", "MeanSquaredLogarithmicError"},
}};

std::string known_metrics() {
  std::string list = "accuracy";
  for (const Registered& each : registered()) {
    list += str_cat(", ", each.class_name, " (", keras_files::to_snake_case(each.class_name), ")");
  }
  return list;
}

bool is_accuracy(std::string_view name) {
  const std::string lower = strata::detail::lower_case(name);
  return lower == "accuracy" || lower == "acc";
}

const Registered* find_class(std::string_view class_name) {
  for (const Registered& each : registered()) {
    if (each.class_name == class_name) return &each;
  }
  return nullptr;
}

/// Adapts Mean and Sum, which have the state.
template <typename T>
class MetricAdapter final : public MetricImpl {
 public:
  MetricAdapter(const T& metric, std::string_view class_name)
      : MetricImpl(metric.name()), metric_(metric), class_name_(class_name) {}

 private:
  void do_build(const keras::Shape&, const keras::Shape&) override {
    metric_.build();
    register_variable("total", metric_.total());
    if constexpr (std::is_same_v<T, Mean>) register_variable("count", metric_.count());
  }
  void do_update_state(const MetricInput&) override {
    STRATA_CHECK(false, kInvalidArgument, "[metrics] update_state: '", name(), "' is a ",
                 class_name_,
                 ", which takes values, not y_true and y_pred; call its update(values)");
  }
  Tensor do_result() const override { return at::scalar_tensor(metric_.result(), at::kDouble); }
  Json do_config() const override {
    Json config = Json::object();
    config.set("name", name());
    config.set("dtype", "float32");
    return keras::make_object("keras.metrics", class_name_, std::move(config));
  }

  T metric_;
  std::string_view class_name_;
};

class TrackedMetric final : public Trackable {
 public:
  explicit TrackedMetric(std::function<std::vector<std::pair<std::string, Variable>>()> variables)
      : variables_(std::move(variables)) {}
  ObjectState state() override {
    ObjectState state;
    for (const auto& [name, variable] : variables_()) {
      state.tensors.push_back(strata::detail::state_of(variable, name));
    }
    return state;
  }

 private:
  std::function<std::vector<std::pair<std::string, Variable>>()> variables_;
};

}  // namespace

MetricImpl::MetricImpl(std::string name) : name_(std::move(name)) {}
MetricImpl::~MetricImpl() = default;

Variable MetricImpl::add_variable(const std::string& name, at::IntArrayRef shape) {
  Variable variable = make_sum(str_cat(name_, "/", name), shape);
  variables_.emplace_back(name, variable);
  return variable;
}
void MetricImpl::add(Variable& variable, const Tensor& value) { add_to_sum(variable, value); }
Tensor MetricImpl::read(const Variable& variable) { return variable.value().cpu(); }
void MetricImpl::register_variable(const std::string& name, const Variable& variable) {
  variables_.emplace_back(name, variable);
}

Metric::Metric(std::shared_ptr<MetricImpl> impl) : impl_(std::move(impl)) {
  STRATA_CHECK(impl_ != nullptr, kInvalidArgument, "[metrics] Metric: got a null pointer");
}
Metric::Metric(const char* name) : Metric(std::string(name)) {}
Metric::Metric(const std::string& name) : Metric(named(name, Json(name))) {}
Metric::Metric(const losses::Loss& loss) : Metric(make_mean_of_loss(loss)) {}
Metric::Metric(const Mean& mean) : Metric(std::make_shared<MetricAdapter<Mean>>(mean, "Mean")) {}
Metric::Metric(const Sum& sum) : Metric(std::make_shared<MetricAdapter<Sum>>(sum, "Sum")) {}

Metric Metric::named(const std::string& name, Json identifier) {
  std::shared_ptr<MetricImpl> impl;
  if (is_accuracy(name)) {
    impl = make_any_accuracy();
  } else if (name == "Mean" || name == "mean") {
    impl = Metric(Mean()).impl_;
  } else if (name == "Sum" || name == "sum") {
    impl = Metric(Sum()).impl_;
  } else {
    std::string_view wanted = name;
    for (const auto& [alias, class_name] : kAliases) {
      if (alias == name) wanted = class_name;
    }
    for (const Registered& each : registered()) {
      if (each.class_name == wanted || keras_files::to_snake_case(each.class_name) == wanted) {
        impl = each.make(each.class_name, Json::object());
      }
    }
  }
  STRATA_CHECK(impl != nullptr, kInvalidArgument, "[metrics] Metric: got '", name,
               "'; expected one of ", known_metrics());
  impl->name_ = name;
  impl->identifier_ = std::move(identifier);
  return Metric(std::move(impl));
}

void Metric::build(const keras::Shape& y_true, const keras::Shape& y_pred) {
  if (impl_->built_) return;
  const strata::detail::Context& context = strata::detail::current_context();
  STRATA_CHECK(context.replica == nullptr || context.group == strata::detail::default_group().get(),
               kFailedPrecondition, "[metrics] update_state: '", name(),
               "' has no state yet, and a replica cannot make it; call build() in the strategy's "
               "scope first");
  impl_->variables_.clear();
  impl_->do_build(y_true, y_pred);
  impl_->built_ = true;
}

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                          const Tensor& mask) {
  const at::NoGradGuard no_grad;
  if (!impl_->built_) build(y_true.sizes().vec(), y_pred.sizes().vec());
  impl_->do_update_state(
      {.y_true = y_true, .y_pred = y_pred, .sample_weight = sample_weight, .mask = mask});
}

Tensor Metric::results() const {
  STRATA_CHECK(impl_->built_, kFailedPrecondition, "[metrics] result: '", name(),
               "' was shown nothing yet");
  const at::NoGradGuard no_grad;
  return impl_->do_result();
}

double Metric::result() const {
  const Tensor values = results();
  STRATA_CHECK(values.numel() == 1, kFailedPrecondition, "[metrics] result: '", name(), "' has ",
               values.numel(), " values; use results()");
  return values.item<double>();
}

void Metric::reset_state() {
  for (auto& [name, variable] : impl_->variables_) variable.assign(0.0);
}

std::vector<Variable> Metric::variables() const {
  std::vector<Variable> variables;
  for (const auto& [name, variable] : impl_->variables_) variables.push_back(variable);
  return variables;
}

std::shared_ptr<Trackable> Metric::tracked() const {
  return std::make_shared<TrackedMetric>([impl = impl_] { return impl->variables_; });
}

Metric resolve(const std::string& name, const keras::Shape& y_true, const keras::Shape& y_pred) {
  if (!is_accuracy(name)) return Metric::named(name, Json(name));
  static constexpr std::array<std::string_view, 3> kClasses = {
      "BinaryAccuracy", "SparseCategoricalAccuracy", "CategoricalAccuracy"};
  const auto kind = static_cast<size_t>(losses::label_kind(y_true, y_pred));
  const Registered* const found = find_class(kClasses[kind]);
  STRATA_DCHECK(found != nullptr);
  Metric metric(found->make(found->class_name, Json::object()));
  metric.impl_->name_ = name;
  metric.impl_->identifier_ = Json(name);
  return metric;
}

void make_names_unique(std::vector<Metric>& metrics) {
  std::set<std::string> taken;
  for (Metric& metric : metrics) {
    std::string name = metric.name();
    for (int i = 1; !taken.insert(name).second; ++i) name = str_cat(metric.name(), "_", i);
    metric.set_name(name);
  }
}

Json to_config(const Metric& metric) {
  if (!metric.impl_->identifier_.is_null()) return metric.impl_->identifier_;
  Json config = metric.impl_->do_config();
  STRATA_CHECK(
      !config.is_null(), kUnimplemented, "[metrics] config of '", metric.name(),
      "': got a user-defined metric, which Keras cannot load; save without compile_config");
  return config;
}

Metric metric_from_config(const Json& json) {
  if (json.is_string()) return Metric(json.as_string());
  const keras::ObjectJson object = keras::parse_object(json, "a metric");
  // A function in place of an object: its name is the config.
  if (object.class_name == "function" && object.config.is_string()) {
    return Metric(object.config.as_string());
  }
  const Registered* const found = find_class(object.class_name);
  if (found != nullptr) return Metric(found->make(found->class_name, object.config));
  const Json* const name = object.config.find("name");
  if (object.class_name == "Mean") return Mean(name == nullptr ? "mean" : name->as_string());
  if (object.class_name == "Sum") return Sum(name == nullptr ? "sum" : name->as_string());
  strata::detail::throw_error(ErrorCode::kUnimplemented,
                              str_cat("[keras] config of a metric: got class '", object.class_name,
                                      "'; strata has Mean, Sum, ", known_metrics()));
}

}  // namespace strata::metrics
