#include "estimator/canned/model_fns.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "optim/step/backward.h"
#include "strata/core/error.h"
#include "strata/estimator/feature_layers.h"
#include "strata/estimator/run_config.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/regularization.h"
#include "strata/optim/legacy_optimizers.h"

namespace strata::estimator::detail {
namespace {

feature_column::VariableSource variables_of(ModelContext& context) {
  return [&context](const std::string& name, const std::function<at::Tensor()>& initial,
                    bool trainable) {
    return context.variable(name, initial, VariableOptions{.trainable = trainable});
  };
}

bool writes_summaries(const ModelContext& context) {
  return context.mode() == Mode::kTrain && context.config().options().save_summary_steps > 0;
}

/// What summaries have of a layer's values.
void summarize_layer(const std::string& layer, const at::Tensor& values, ModelContext& context) {
  if (!writes_summaries(context)) return;
  context.scalar(layer + "/fraction_of_zero_values", (values.detach() == 0).to(at::kFloat).mean());
  context.histogram(layer + "/activation", values);
}

void summarize_bias(const at::Tensor& bias, ModelContext& context) {
  if (!writes_summaries(context)) return;
  if (bias.numel() == 1) {
    context.scalar("bias", bias.detach().clone());
  } else {
    context.histogram("bias", bias.detach().clone());
  }
}

at::Tensor linear_logits(const LinearPart& linear, int64_t units, const Features& features,
                         ModelContext& context) {
  const std::string scope = "linear/linear_model";
  const feature_column::VariableSource variables = variables_of(context);
  const at::Tensor logits = feature_column::linear_model(
      features, linear.columns, {.units = units, .sparse_combiner = linear.combiner}, variables,
      scope);
  // Which linear_model has made.
  summarize_bias(variables(scope + "/bias_weights", {}, /*trainable=*/true).value(), context);
  return logits;
}

at::Tensor dnn_logits(const DnnPart& dnn, int64_t units, const Features& features,
                      ModelContext& context) {
  at::Tensor x = feature_column::input_layer(features, dnn.columns, variables_of(context),
                                             "dnn/input_from_feature_columns/input_layer");
  for (size_t i = 0; i < dnn.hidden_units.size(); ++i) {
    const std::string index = std::to_string(i);
    const std::string layer = "dnn/hiddenlayer_" + index;
    x = context.layer<layers::Dense>(layer, dnn.hidden_units[i], dnn.activation)(x);
    if (dnn.dropout > 0)
      x = context.layer<layers::Dropout>(layer + "/dropout_" + index, dnn.dropout)(x);
    if (dnn.batch_norm) {
      x = context.layer<layers::BatchNormalization>(
          layer + "/batchnorm_" + index,
          layers::BatchNormalizationOptions{.momentum = 0.999, .epsilon = 0.001})(x);
    }
    summarize_layer(layer, x, context);
  }
  const at::Tensor logits = context.layer<layers::Dense>("dnn/logits", units)(x);
  summarize_layer("dnn/logits", logits, context);
  return logits;
}

std::vector<at::Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<at::Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.value());
  return values;
}

/// One backward for both, since the first update changes what a second backward would read.
void update_both(optimizers::Optimizer& first, optimizers::Optimizer& second,
                 const at::Tensor& loss, const optimizers::MinimizeOptions& options) {
  std::vector<at::Tensor> inputs = values_of(first.variables());
  const auto of_first = static_cast<std::ptrdiff_t>(inputs.size());
  for (const at::Tensor& value : values_of(second.variables())) inputs.push_back(value);
  auto gradients = optimizers::backward_here(loss, inputs);
  if (!gradients) {
    gradients = torch::autograd::grad({loss}, inputs, /*grad_outputs=*/{},
                                      /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                      /*allow_unused=*/true);
  }
  first.apply_gradients({gradients->begin(), gradients->begin() + of_first}, options);
  second.apply_gradients({gradients->begin() + of_first, gradients->end()}, options);
}

/// A train_op of both parts. As ModelContext::minimize weighs the replicas' losses.
std::function<void()> train_both(ModelContext& context, const LinearPart& linear,
                                 const DnnPart& dnn, const at::Tensor& loss,
                                 const LossReduction& reduction) {
  optimizers::Optimizer& deep = context.optimizer(dnn.optimizer.make, dnn.optimizer.name, "dnn/");
  const bool same = linear.optimizer.name == dnn.optimizer.name;
  optimizers::Optimizer& wide = context.optimizer(
      linear.optimizer.make, linear.optimizer.name + (same ? "_1" : ""), "linear/");
  const bool by_rows = reduction != LossReduction::kSum && context.num_replicas_in_sync() > 1;
  const auto rows = static_cast<double>(context.rows());
  return [&deep, &wide, loss, by_rows, rows] {
    if (by_rows) {
      update_both(deep, wide, loss * rows, {.weight = rows});
    } else {
      update_both(deep, wide, loss, {});
    }
  };
}

LossOverReplicas over_replicas(const Head& head) {
  return head.loss_reduction() == LossReduction::kSum ? LossOverReplicas::kSum
                                                      : LossOverReplicas::kMean;
}

std::function<void()> train_one(ModelContext& context, const PartOptimizer& optimizer,
                                const at::Tensor& loss, const Head& head) {
  return context.minimize(context.optimizer(optimizer.make, optimizer.name), loss,
                          over_replicas(head));
}

optimizers::AnyOptimizer named(const std::string& name, double rate) {
  namespace legacy = optimizers::legacy;
  if (name == "Adagrad") return legacy::Adagrad({.learning_rate = rate});
  if (name == "Adam") return optimizers::Adam({.learning_rate = rate});
  if (name == "Ftrl") return legacy::Ftrl({.learning_rate = rate});
  if (name == "RMSProp") return legacy::RMSprop({.learning_rate = rate});
  STRATA_CHECK(name == "SGD", kInvalidArgument,
               "[estimator] optimizer: Unsupported optimizer name: ", name,
               ". Supported names are: Adagrad, Adam, Ftrl, RMSProp, SGD");
  return legacy::SGD({.learning_rate = rate});
}

/// "Adam", for the names of slots; a legacy optimizer has the name of today's.
std::string class_name_of(const optimizers::Optimizer& optimizer) {
  constexpr std::string_view kLegacy = "legacy_";
  std::string_view name = optimizer.name();
  if (name.starts_with(kLegacy)) name.remove_prefix(kLegacy.size());
  for (const tensor::RuleRow& row : tensor::rule_rows()) {
    if (row.name == name) return std::string(row.class_names.front());
  }
  return std::string(name);
}

}  // namespace

PartOptimizer optimizer_of(const OptimizerChoice& choice, const NamedRates& rates) {
  if (const auto* make = std::get_if<MakeOptimizer>(&choice)) {
    const optimizers::AnyOptimizer one = *make ? (*make)() : optimizers::AnyOptimizer();
    STRATA_CHECK(one, kInvalidArgument, "[estimator] optimizer: got a function that makes none");
    return {class_name_of(*one), *make};
  }
  const auto* given = std::get_if<std::string>(&choice);
  const std::string name = given != nullptr ? *given : rates.default_name;
  double rate = given != nullptr ? rates.rate : rates.rate_unset;
  if (name == "SGD" && rates.rate_of_sgd) rate = *rates.rate_of_sgd;
  return {class_name_of(*named(name, rate)), [name, rate] { return named(name, rate); }};
}

ModelFn model_fn_of(Head head, std::optional<LinearPart> linear, std::optional<DnnPart> dnn) {
  return [head = std::move(head), linear = std::move(linear), dnn = std::move(dnn)](
             const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
    at::Tensor logits;
    if (dnn) logits = dnn_logits(*dnn, head.logits_dimension(), features, context);
    if (linear) {
      const at::Tensor more = linear_logits(*linear, head.logits_dimension(), features, context);
      if (dnn) summarize_layer("linear", more, context);
      logits = logits.defined() ? logits + more : more;
    }
    return head.create_estimator_spec(
        features, mode, logits, labels, context, [&](const at::Tensor& loss) {
          if (linear && dnn) return train_both(context, *linear, *dnn, loss, head.loss_reduction());
          return train_one(context, linear ? linear->optimizer : dnn->optimizer, loss, head);
        });
  };
}

ModelFn baseline_model_fn(Head head, PartOptimizer optimizer) {
  return [head = std::move(head), optimizer = std::move(optimizer)](
             const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
    STRATA_CHECK(!features.empty(), kInvalidArgument,
                 "[estimator] baseline: got no features; expected one, for the number of rows");
    const int64_t units = head.logits_dimension();
    const Variable bias =
        context.variable("baseline/bias", [units] { return at::zeros({units}, at::kFloat); });
    const at::Tensor logits =
        bias.value().unsqueeze(0).expand({features.begin()->second.values.size(0), units});
    return head.create_estimator_spec(
        features, mode, logits, labels, context,
        [&](const at::Tensor& loss) { return train_one(context, optimizer, loss, head); });
  };
}

}  // namespace strata::estimator::detail
