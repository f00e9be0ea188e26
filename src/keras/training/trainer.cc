#include "keras/training/trainer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>

#include "core/join.h"
#include "graph/host_call.h"
#include "graph/remote/step_runner.h"
#include "keras/call_context.h"
#include "keras/graph/node.h"
#include "keras/penalties.h"
#include "keras/training/step_graphs.h"
#include "runtime/coalesced_read.h"
#include "runtime/group_exchange.h"
#include "runtime/set_in_step.h"
#include "strata/core/log.h"
#include "strata/runtime/replica_context.h"
#include "tensor/device_copy.h"

namespace strata::keras::detail {
namespace {

Shape row_shape(const at::Tensor& batch) {
  Shape shape = batch.sizes().vec();
  if (!shape.empty()) shape[0] = kNone;
  return shape;
}

std::string list(const std::vector<std::string>& names) {
  return join(names, [](const std::string& name) { return '\'' + name + '\''; });
}

/// The entry for output `i` of `count`, or null.
template <typename T>
const T* entry(const PerOutput<T>& values, size_t i, const std::string& name) {
  if (const auto found = values.by_name().find(name); found != values.by_name().end()) {
    return &found->second;
  }
  if (values.values().empty()) return nullptr;
  return &values.values()[values.one_for_each() ? i : 0];
}

const MetricList* entry(const PerOutputMetrics& metrics, size_t i, const std::string& name) {
  if (const auto found = metrics.by_name().find(name); found != metrics.by_name().end()) {
    return &found->second;
  }
  return i < metrics.each().size() ? &metrics.each()[i] : nullptr;
}

/// One entry an output, and no name that no output has.
void check_outputs(const std::string& model, const char* what, size_t entries,
                   const std::vector<std::string>& named, const std::vector<std::string>& outputs) {
  STRATA_CHECK(entries == 0 || entries == outputs.size(), kInvalidArgument, "[keras] Model '",
               model, "': compile got ", entries, " ", what, " for ", outputs.size(), " outputs (",
               list(outputs), "); pass one for each");
  for (const std::string& name : named) {
    STRATA_CHECK(std::find(outputs.begin(), outputs.end(), name) != outputs.end(), kInvalidArgument,
                 "[keras] Model '", model, "': compile got ", what, " for output '", name,
                 "'; there are ", list(outputs));
  }
}

/// A log is a number: of a metric with several values their mean, which Keras's bar shows.
double reported(const metrics::Metric& metric) {
  const at::Tensor values = metric.results();
  return values.numel() == 1 ? values.item<double>() : values.to(at::kDouble).mean().item<double>();
}

/// A tensor that operators take for the number it holds.
at::Tensor as_number(const at::Tensor& scalar) {
  scalar.unsafeGetTensorImpl()->set_wrapped_number(true);
  return scalar;
}

/// What multiplies the sum of each loss, so that the optimizer's division by all rows makes it the
/// mean.
/// @param sums  Over all replicas: the rows, then what divides each loss.
/// @return numbers on the CPU, or float64 on the GPU of `sums`, for which the host does not wait.
Tensors loss_factors(const at::Tensor& sums, const std::vector<bool>& divides) {
  const auto divide = [divides](const std::vector<at::Tensor>& given) {
    std::vector<double> sum;
    for (const at::Tensor& each : given[0].unbind()) sum.push_back(each.item<double>());
    Tensors factors;
    for (size_t i = 0; i < divides.size(); ++i) {
      const double divisor = divides[i] ? sum[i + 1] : 1;
      factors.push_back(
          as_number(at::scalar_tensor(divisor > 0 ? sum[0] / divisor : 0, at::kDouble)));
    }
    return factors;
  };
  if (graph::records_for_elsewhere() || !sums.is_cpu()) {
    Tensors factors;
    for (size_t i = 0; i < divides.size(); ++i) {
      const at::Tensor divisor =
          divides[i] ? sums[static_cast<int64_t>(i) + 1] : at::ones({}, sums.options());
      const at::Tensor factor =
          at::where(divisor > 0, sums[0] / divisor, at::zeros({}, sums.options()));
      factors.push_back(sums.is_cpu() ? as_number(factor) : factor);
    }
    return factors;
  }
  const std::vector<graph::HostResult> numbers(divides.size(), {{}, at::kDouble});
  Tensors factors = graph::call_host("strata::loss_factors", {sums}, numbers, divide);
  for (at::Tensor& factor : factors) factor = as_number(factor);
  return factors;
}

template <typename Map>
std::vector<std::string> keys(const Map& map) {
  std::vector<std::string> names;
  names.reserve(map.size());
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

}  // namespace

Trainer::Trainer(ModelImpl& model, CompileOptions options)
    : model_(model), options_(std::move(options)) {
  STRATA_CHECK(options_.steps_per_execution >= 1, kInvalidArgument, "[keras] Model '", model.name(),
               "': compile got steps_per_execution=", options_.steps_per_execution,
               "; expected 1 or more");
}

void Trainer::prepare(const data::Example& batch) {
  if (prepared_) return;
  num_inputs_ = model_.num_inputs();
  STRATA_CHECK(batch.fields.size() >= num_inputs_, kInvalidArgument, "[keras] Model '",
               model_.name(), "': got elements of ", batch.fields.size(),
               " tensors; the model has ", num_inputs_, " inputs");
  std::vector<Shape> shapes;
  for (const at::Tensor& field : batch.fields) shapes.push_back(row_shape(field));
  const std::vector<Shape> inputs(shapes.begin(), shapes.begin() + static_cast<long>(num_inputs_));
  model_.strategy().scope([&] {
    model_.ensure_built(inputs);
    bind_outputs({shapes.begin() + static_cast<long>(num_inputs_), shapes.end()},
                 model_.output_shapes(inputs));
    const std::vector<Variable> variables = model_.trainable_variables();
    if (optimizer().variables().empty() && !variables.empty()) optimizer().build(variables);
  });
  if (optimizer().variables().empty()) {
    STRATA_LOG(kWarning) << "[keras] Model '" << model_.name()
                         << "' has no trainable weights: steps compute its loss and metrics alone";
  }
  for (const Weight& weight : model_.weights()) {
    if (weight.trainable && weight.regularizer) regularized_.push_back(weight);
    if (weight.trainable && weight.constraint) constrained_.push_back(weight);
  }
  prepared_ = true;
}

void Trainer::bind_outputs(const std::vector<Shape>& labels, const std::vector<Shape>& outputs) {
  const Model model(std::static_pointer_cast<ModelImpl>(model_.shared_from_this()));
  std::vector<std::string> names;
  for (const SymbolicTensor& output : model.outputs()) {
    names.push_back(output.node()->layer.name());
  }
  for (size_t i = names.size(); i < outputs.size(); ++i) names.push_back(str_cat("output_", i + 1));
  const auto& [o, l, w] = std::tie(options_, options_.loss, options_.loss_weights);
  check_outputs(model_.name(), "losses", l.one_for_each() ? l.values().size() : 0,
                keys(l.by_name()), names);
  check_outputs(model_.name(), "loss weights", w.one_for_each() ? w.values().size() : 0,
                keys(w.by_name()), names);
  for (const PerOutputMetrics* metrics : {&o.metrics, &o.weighted_metrics}) {
    check_outputs(
        model_.name(), "lists of metrics",
        metrics->each().size() == 1 && metrics->each()[0].empty() ? 0 : metrics->each().size(),
        keys(metrics->by_name()), names);
  }

  mean_loss_.emplace("loss");
  mean_loss_->build();
  outputs_.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Output output{.name = names[i]};
    if (const auto* loss = entry(l, i, names[i])) output.loss = *loss;
    if (const auto* weight = entry(w, i, names[i])) output.weight = *weight;
    if (outputs.size() > 1 && output.loss) {
      output.mean_loss.emplace(output.name + "_loss");
      output.mean_loss->build();
    }
    const Shape label = i < labels.size() ? labels[i] : Shape{};
    for (const auto& [from, to] : {std::pair(&o.metrics, &output.metrics),
                                   std::pair(&o.weighted_metrics, &output.weighted_metrics)}) {
      const MetricList* metrics = entry(*from, i, output.name);
      if (metrics == nullptr) continue;
      for (const metrics::Metric& metric : *metrics) {
        to->push_back(metric);
        to->back().build(label, outputs[i]);
      }
      metrics::make_names_unique(*to);
    }
    outputs_.push_back(std::move(output));
  }
}

Batch Trainer::unpack(const data::Example& example) const {
  const auto& fields = example.fields;
  const auto x_end = fields.begin() + static_cast<long>(std::min(num_inputs_, fields.size()));
  Batch batch{.x = {fields.begin(), x_end}, .y = {}, .sample_weight = {}};
  const auto rest = static_cast<size_t>(fields.end() - x_end);
  if (rest == 0) return batch;
  const size_t outputs = outputs_.size();
  STRATA_CHECK(rest >= outputs && (rest == outputs || rest == outputs + 1 || rest == 2 * outputs),
               kInvalidArgument, "[keras] Model '", model_.name(), "': got elements of ",
               fields.size(), " tensors; expected ", num_inputs_, " inputs, ", outputs,
               " labels (one for each output) and, if wanted, 1 or ", outputs, " sample weights");
  batch.y.assign(x_end, x_end + static_cast<long>(outputs));
  batch.sample_weight.assign(x_end + static_cast<long>(outputs), fields.end());
  return batch;
}

void Trainer::set_class_weight(const std::map<int64_t, double>& weights) {
  if (weights == class_weights_) return;
  model_.graphs().forget();  // they have the tensor
  class_weights_ = weights;
  class_weight_ = at::Tensor();
  if (weights.empty()) return;
  STRATA_CHECK(weights.begin()->first >= 0, kInvalidArgument, "[keras] fit: got class_weight for ",
               "class ", weights.begin()->first, "; classes count from 0");
  class_weight_ = at::full({weights.rbegin()->first + 1}, 1.0, at::kFloat);
  for (const auto& [label, weight] : weights) class_weight_[label].fill_(weight);
}

at::Tensor Trainer::sample_weight(const Batch& batch, size_t output) const {
  at::Tensor weight;
  if (batch.sample_weight.size() == 1) weight = batch.sample_weight[0];
  if (batch.sample_weight.size() > 1) weight = batch.sample_weight[output];
  if (!class_weight_.defined() || !call_context().training) return weight;
  STRATA_CHECK(outputs_.size() == 1, kInvalidArgument, "[keras] Model '", model_.name(),
               "': class_weight is for models with one output; this one has ", outputs_.size(),
               ". Use sample weights");
  const at::Tensor& y = batch.y.at(output);
  at::Tensor classes = y.dim() > 1 && y.size(-1) > 1 ? y.argmax(-1) : y;
  if (classes.dim() > 1 && classes.size(-1) == 1) classes = classes.squeeze(-1);
  const at::Tensor by_class = tensor::to_device(class_weight_, y.device())
                                  .index_select(0, classes.reshape({-1}).to(at::kLong));
  const at::Tensor shaped = by_class.reshape(classes.sizes());
  return weight.defined() ? weight * shaped : shaped;
}

StepLoss Trainer::compute_loss(const Batch& batch, const LayerImpl::Outputs& outputs,
                               const Tensors& added) {
  const int64_t rows = batch.x.at(0).size(0);
  StepLoss loss{.value = {}, .weight = static_cast<double>(rows)};
  const auto add = [](at::Tensor& sum, const at::Tensor& term) {
    sum = sum.defined() ? sum + term : term;
  };

  struct Part {
    const Output* output;
    losses::LossTerms terms;
  };
  std::vector<Part> parts;
  bool counts_suffice = true;
  for (size_t i = 0; i < outputs_.size() && !batch.y.empty(); ++i) {
    if (!outputs_[i].loss) continue;
    const at::Tensor mask = i < outputs.masks.size() ? outputs.masks[i] : at::Tensor();
    parts.push_back({&outputs_[i], outputs_[i].loss.terms(batch.y[i], outputs.values.at(i),
                                                          sample_weight(batch, i), mask)});
    counts_suffice =
        counts_suffice && outputs_[i].loss.divides() && !parts.back().terms.weight_sum.defined();
  }
  if (counts_suffice) {
    // Values a row are as many on every replica, so the optimizer's division by the rows of all
    // replicas is the division by the values of all.
    for (const Part& part : parts) {
      const double a_row = rows > 0 ? part.terms.count / static_cast<double>(rows) : 1;
      at::Tensor value = a_row == 1 || a_row == 0 ? part.terms.sum : part.terms.sum / a_row;
      if (outputs_.size() > 1) loss.outputs.push_back(value.detach());
      add(loss.value, part.output->weight == 1 ? value : value * part.output->weight);
    }
  } else {
    // What divides depends on values: all replicas' sums of it are needed first.
    const auto numbers = at::TensorOptions(at::kDouble).device(parts[0].terms.sum.device());
    std::vector<at::Tensor> local = {at::scalar_tensor(static_cast<double>(rows), numbers)};
    for (const Part& part : parts) {
      local.push_back(part.terms.weight_sum.defined()
                          ? part.terms.weight_sum.detach().to(numbers)
                          : at::scalar_tensor(part.terms.count, numbers));
    }
    const at::Tensor all = get_replica_context()->all_reduce(ReduceOp::kSum, at::stack(local));
    std::vector<bool> divides;
    for (const Part& part : parts) divides.push_back(part.output->loss.divides());
    const Tensors factors = loss_factors(all, divides);
    for (size_t i = 0; i < parts.size(); ++i) {
      const at::Tensor& sum = parts[i].terms.sum;
      const at::Tensor value = sum * (all.is_cpu() ? factors[i] : factors[i].to(sum.scalar_type()));
      // Values a row are as many on every replica.
      const bool none = parts[i].output->loss.reduction() == losses::Reduction::kNone;
      const double values = parts[i].terms.num_values;
      const at::Tensor seen =
          none && values > 0 ? sum.detach() * (static_cast<double>(rows) / values) : value.detach();
      if (outputs_.size() > 1) loss.outputs.push_back(seen);
      add(loss.value, value * parts[i].output->weight);
      add(loss.reported, seen * parts[i].output->weight);
    }
  }
  if (rows > 0) {
    at::Tensor penalty = penalties_of(regularized_);
    for (const at::Tensor& each : added) add(penalty, each);
    if (penalty.defined()) {
      add(loss.value, penalty * static_cast<double>(rows));
      if (loss.reported.defined()) add(loss.reported, penalty.detach() * static_cast<double>(rows));
    }
  }
  if (!loss.value.defined()) {
    STRATA_CHECK(rows == 0 && (!added.empty() || !regularized_.empty() || !parts.empty()),
                 kInvalidArgument, "[keras] Model '", model_.name(),
                 "': no loss to compute. Pass `loss` to compile (and labels to fit), or call "
                 "add_loss in a layer");
    loss.value = at::zeros({});
  }
  return loss;
}

void Trainer::minimize(const StepLoss& loss) {
  if (optimizer().variables().empty()) return;  // As Keras's, which has nothing to update.
  optimizer().minimize(loss.value, {.weight = loss.weight});
  if (constrained_.empty()) return;
  if (graph::records_for_elsewhere()) {
    const at::NoGradGuard no_grad;
    for (const Weight& weight : constrained_) {
      strata::detail::set_in_step(*weight.variable.state(), *get_replica_context(),
                                  weight.constraint(weight.variable.value()));
    }
    return;
  }
  const auto constrain = [this](const std::vector<at::Tensor>&) {
    get_replica_context()->merge_call([&](Strategy&) {
      const at::NoGradGuard no_grad;
      for (const Weight& weight : constrained_) {
        Variable variable = weight.variable;
        variable.assign(weight.constraint(variable.value()));
      }
    });
    return std::vector<at::Tensor>();
  };
  graph::call_host("strata::constraints", {}, {}, constrain);
}

void Trainer::update_metrics(const Batch& batch, const LayerImpl::Outputs& outputs,
                             const StepLoss& loss) {
  const at::NoGradGuard no_grad;
  if (loss.weight == 0) return;
  const auto mean = [&](metrics::Mean& metric, const at::Tensor& sum) {
    if (sum.is_cpu() && !graph::records_for_elsewhere()) {
      const auto update = [metric, weight = loss.weight](const std::vector<at::Tensor>& given) {
        const at::NoGradGuard in_replays_too;
        metrics::Mean(metric).update(given[0].item<double>() / weight, weight);
        return std::vector<at::Tensor>();
      };
      graph::call_host("strata::mean_of_loss", {sum}, {}, update, {loss.weight});
    } else {
      metric.update(sum / loss.weight, at::full({}, loss.weight, sum.options()));
    }
  };
  mean(*mean_loss_, loss.reported.defined() ? loss.reported : loss.value.detach());
  for (size_t i = 0, part = 0; i < outputs_.size() && !batch.y.empty(); ++i) {
    Output& output = outputs_[i];
    if (output.mean_loss && part < loss.outputs.size()) {
      mean(*output.mean_loss, loss.outputs[part++]);
    }
    if (output.metrics.empty() && output.weighted_metrics.empty()) continue;
    const at::Tensor predicted = outputs.values.at(i).detach();
    for (metrics::Metric& metric : output.metrics) metric.update_state(batch.y[i], predicted);
    if (output.weighted_metrics.empty()) continue;
    const at::Tensor weight = sample_weight(batch, i);
    const at::Tensor mask = i < outputs.masks.size() ? outputs.masks[i] : at::Tensor();
    for (metrics::Metric& metric : output.weighted_metrics) {
      metric.update_state(batch.y[i], predicted, weight, mask);
    }
  }
}

void Trainer::reset_metrics() {
  if (mean_loss_) mean_loss_->reset();
  for (Output& output : outputs_) {
    if (output.mean_loss) output.mean_loss->reset();
    for (auto* metrics : {&output.metrics, &output.weighted_metrics}) {
      for (metrics::Metric& metric : *metrics) metric.reset_state();
    }
  }
}

std::vector<Variable> Trainer::metric_variables() const {
  std::vector<Variable> all;
  const auto add_mean = [&](const metrics::Mean& mean) {
    all.push_back(mean.total());
    all.push_back(mean.count());
  };
  if (mean_loss_) add_mean(*mean_loss_);
  for (const Output& output : outputs_) {
    if (output.mean_loss) add_mean(*output.mean_loss);
    for (const auto* metrics : {&output.metrics, &output.weighted_metrics}) {
      for (const metrics::Metric& metric : *metrics) {
        for (const Variable& variable : metric.variables()) all.push_back(variable);
      }
    }
  }
  return all;
}

Logs::Values Trainer::results() const {
  const strata::detail::CoalescedRead together(metric_variables());
  return read_results();
}

Logs Trainer::shared_results() {
  using strata::detail::CoalescedRead;
  const std::vector<Variable> variables = metric_variables();
  std::optional<CoalescedRead::Values> values;
  if (!variables.empty() && reads_variables_alone_.value_or(true)) {
    values = CoalescedRead::begin_on_cards(variables);
  }
  if (!values) return Logs(results());
  const auto read = [this, cards = variables[0].group().options().cards,
                     values = *std::move(values)] {
    const CoalescedRead together(values);
    Logs::Values found = read_results();
    if (cards) cards->status().throw_if_error();
    return found;
  };
  if (reads_variables_alone_) return Logs(read);
  // A metric of the program's own may bring processes together in ways of its own.
  const uint64_t before = strata::detail::exchanges_of_thread();
  Logs logs(read());
  reads_variables_alone_ = strata::detail::exchanges_of_thread() == before;
  return logs;
}

Logs::Values Trainer::read_results() const {
  Logs::Values values;
  if (!mean_loss_) return values;
  // Outputs of one layer have one name: the last one's values count, as in Keras.
  const auto put = [&values](const std::string& name, double value) {
    std::erase_if(values, [&](const auto& known) { return known.first == name; });
    values.emplace_back(name, value);
  };
  put("loss", mean_loss_->result());
  for (const Output& output : outputs_) {
    if (output.mean_loss) put(output.mean_loss->name(), output.mean_loss->result());
    const std::string prefix = outputs_.size() > 1 ? output.name + "_" : "";
    std::set<std::string> names;
    for (const metrics::Metric& metric : output.metrics) {
      names.insert(metric.name());
      put(prefix + metric.name(), reported(metric));
    }
    for (const metrics::Metric& metric : output.weighted_metrics) {
      const bool taken = names.contains(metric.name());
      put(prefix + (taken ? "weighted_" : "") + metric.name(), reported(metric));
    }
  }
  return values;
}

namespace {

/// An optimizer whose slots are named by their order: layers' names, which variables' follow, are
/// others in a process that has made other layers before.
class SlotsInOrder final : public Trackable {
 public:
  explicit SlotsInOrder(optimizers::Optimizer& optimizer) : named_(Tracked(optimizer).object()) {}
  ObjectState state() override {
    ObjectState state = named_->state();
    for (size_t i = 0; i < state.tensors.size(); ++i) state.tensors[i].name = str_cat("slot_", i);
    return state;
  }

 private:
  std::shared_ptr<Trackable> named_;
};

}  // namespace

std::vector<std::pair<std::string, Tracked>> Trainer::state() {
  std::vector<std::pair<std::string, Tracked>> sums = {{"loss", Tracked(*mean_loss_)}};
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const Output& output = outputs_[o];
    if (output.mean_loss) sums.emplace_back(str_cat("loss_", o), Tracked(*output.mean_loss));
    for (size_t i = 0; i < output.metrics.size(); ++i) {
      sums.emplace_back(str_cat("metric_", o, "_", i), output.metrics[i].tracked());
    }
    for (size_t i = 0; i < output.weighted_metrics.size(); ++i) {
      sums.emplace_back(str_cat("weighted_metric_", o, "_", i),
                        output.weighted_metrics[i].tracked());
    }
  }
  std::vector<Variable> weights;
  for (const Weight& weight : model_.weights()) weights.push_back(weight.variable);
  return {{"model", Tracked(weights)},  // as Model::tracked
          {"optimizer", Tracked(std::make_shared<SlotsInOrder>(optimizer()))},
          {"metrics", Tracked(std::move(sums))}};
}

}  // namespace strata::keras::detail
