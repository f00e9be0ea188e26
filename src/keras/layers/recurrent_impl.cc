#include "keras/layers/recurrent_impl.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "graph/host_call.h"
#include "graph/inference_mode.h"
#include "graph/remote/step_runner.h"
#include "keras/call_context.h"
#include "keras/layers/gated_cell.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/masked_steps.h"
#include "keras/layers/recurrent_visits.h"
#include "runtime/context.h"
#include "strata/keras/layer_registry.h"
#include "strata/runtime/replica_context.h"

namespace strata::layers {

using keras::Call;
using keras::kNone;
using keras::Shape;
using keras::Tensors;

Tensors option_tensors(const Json* option, const Tensors& inputs) {
  Tensors tensors;
  if (option == nullptr || option->is_null()) return tensors;
  if (option->is_array()) {
    for (const Json& each : option->as_array()) {
      for (const at::Tensor& tensor : option_tensors(&each, inputs)) tensors.push_back(tensor);
    }
    return tensors;
  }
  return {inputs.at(static_cast<size_t>(option->at("tensor").as_int()))};
}

Json initial_state_option(size_t count) {
  if (count == 0) return {};
  Json states = Json::array();
  for (size_t i = 0; i < count; ++i) {
    Json tensor = Json::object();
    tensor.set("tensor", static_cast<int64_t>(i + 1));
    states.push_back(std::move(tensor));
  }
  Json options = Json::object();
  options.set("initial_state", std::move(states));
  return options;
}

at::Tensor take_words_of_input() {
  const auto* const fusion = std::exchange(keras::detail::call_context().fusion, nullptr);
  return fusion != nullptr ? fusion->words : at::Tensor();
}

RNNImpl::RNNImpl(const keras::Layer& cell, const RNNOptions& options)
    : LayerImpl(keras::base_options(options)), options_(options), cell_(&as_cell(cell, "RNN")) {
  track("cell", cell);
}

void RNNImpl::describe(keras::ConfigWriter& config) const {
  visit_sequence(config, options_);
  config("cell", keras::to_config(sublayers()[0].second));
  if (options_.activity_regularizer) config("activity_regularizer", options_.activity_regularizer);
}

std::vector<Variable> make_kept_states(const keras::LayerImpl& layer, const Shape& sequence,
                                       const std::vector<Shape>& states) {
  STRATA_CHECK(sequence.at(0) != kNone, kInvalidArgument, "[keras] Layer \"", layer.name(),
               "\": When using `stateful=True` in a RNN, the batch size must be static. Found "
               "dynamic batch size: sequence.shape=",
               keras::to_string(sequence));
  const int replicas = strata::detail::current_context().group->num_replicas();
  STRATA_CHECK(
      replicas == 1, kUnimplemented, "[keras] Layer \"", layer.name(),
      "\": stateful=True under a strategy with ", replicas,
      " replicas; expected one: the next part of an example could come to another replica");
  std::vector<Variable> kept;
  for (const Shape& shape : states) {
    kept.emplace_back(at::zeros(shape, layer.dtype().variable_dtype()),
                      VariableOptions{.name = layer.name() + "/rnn_state", .trainable = false});
  }
  return kept;
}

void reset_kept_states(const keras::LayerImpl& layer, bool stateful,
                       std::vector<Variable>& states) {
  STRATA_CHECK(stateful, kFailedPrecondition, "[keras] Layer \"", layer.name(),
               "\": reset_states() of a layer that is not stateful");
  for (Variable& state : states) state.assign(0.0);
}

void RNNImpl::build(const std::vector<Shape>& inputs) {
  Shape step = inputs.at(0);
  STRATA_CHECK(step.size() >= 3, kInvalidArgument, "[keras] Input 0 of layer \"", name(),
               "\" is incompatible with the layer: expected min_ndim=3, found ndim=", step.size(),
               ", but received input with shape ", keras::to_string(step));
  const int64_t batch = step[0];
  step.erase(step.begin() + 1);
  std::vector<Shape> shapes{step};
  for (int64_t size : cell_->state_sizes()) shapes.push_back({batch, size});
  cell_->ensure_built(shapes);
  shapes.erase(shapes.begin());
  if (options_.stateful) states_ = make_kept_states(*this, inputs[0], shapes);
}

std::vector<Shape> RNNImpl::compute_output_shapes(const std::vector<Shape>& inputs,
                                                  const Json&) const {
  const int64_t batch = inputs.at(0).at(0);
  std::vector<Shape> shapes;
  if (options_.return_sequences) {
    shapes.push_back({batch, inputs[0].at(1), cell_->output_size()});
  } else {
    shapes.push_back({batch, cell_->output_size()});
  }
  if (options_.return_state) {
    for (int64_t size : cell_->state_sizes()) shapes.push_back({batch, size});
  }
  return shapes;
}

Tensors RNNImpl::compute_masks(const Tensors&, const Call& call) const {
  if (!options_.return_sequences || !call.mask().defined()) return {};
  return {call.mask()};
}

Tensors RNNImpl::call(const Tensors& inputs, const Call& call) {
  const Tensors states = option_tensors(call.option("initial_state"), inputs);
  // Keras hands a layer the masks of its inputs only if they are one argument.
  at::Tensor mask = states.empty() ? call.mask() : at::Tensor();
  if (const Tensors given = option_tensors(call.option("mask"), inputs); !given.empty()) {
    mask = given[0];
  }
  return go(inputs.at(0), states, mask, call.training, take_words_of_input());
}

Tensors RNNImpl::first_states(const at::Tensor& x, Tensors states) const {
  const std::vector<int64_t> sizes = cell_->state_sizes();
  if (!states_.empty()) {
    STRATA_CHECK(
        x.size(0) == states_[0].sizes()[0], kInvalidArgument, "[keras] Layer \"", name(),
        "\": If an RNN is stateful, the batch size of the input sequences must be the same "
        "as the batch size of the initial state. \n- Expected batch size: ",
        states_[0].sizes()[0], "\n- Received batch size: ", x.size(0));
  }
  if (states.empty()) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      states.push_back(states_.empty() ? at::zeros({x.size(0), sizes[i]}, x.options())
                                       : states_[i].value().clone());
    }
  }
  STRATA_CHECK(states.size() == sizes.size(), kInvalidArgument, "[keras] Layer \"", name(),
               "\": got ", states.size(), " initial states; expected ", sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    STRATA_CHECK(
        states[i].dim() == 2 && states[i].size(0) == x.size(0) && states[i].size(1) == sizes[i],
        kInvalidArgument, "[keras] Layer \"", name(), "\": initial state ", i, " has shape ",
        keras::to_string(states[i].sizes().vec()), "; expected ",
        keras::to_string({x.size(0), sizes[i]}));
    states[i] = states[i].to(x.scalar_type());
  }
  return states;
}

Tensors RNNImpl::go(const at::Tensor& given, Tensors states, const at::Tensor& mask, bool training,
                    const at::Tensor& words) {
  at::Tensor x = given.to(cell_->dtype().compute_dtype());
  states = first_states(x, std::move(states));
  if (options_.go_backwards) x = x.flip(1);
  std::optional<Result> result;
  STRATA_CHECK(!mask.defined() ||
                   (mask.dim() == 2 && mask.size(0) == x.size(0) && mask.size(1) == x.size(1)),
               kInvalidArgument, "[keras] Layer \"", name(), "\": got a mask of shape ",
               mask.defined() ? mask.sizes() : at::IntArrayRef(), "; expected ",
               x.sizes().slice(0, 2));
  const at::Tensor steps = mask.defined() && options_.go_backwards ? mask.flip(1) : mask;
  if (x.numel() > 0) {
    const bool turned = words.defined() && options_.go_backwards;
    result = all_steps(x, states, steps, training, turned ? words.flip(1) : words);
    if (!result && !mask.defined()) result = try_fused_kernel(x, states, training);
  }
  if (!result) result = step_by_step(x, std::move(states), steps, training);
  if (!states_.empty()) {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < states_.size(); ++i) states_[i].assign(result->states[i].detach());
  }
  Tensors outputs{options_.return_sequences ? result->sequence : result->last};
  if (options_.return_state) {
    outputs.insert(outputs.end(), result->states.begin(), result->states.end());
  }
  for (at::Tensor& y : outputs) {
    y = y.to(dtype().compute_dtype());
    add_activity_loss(options_.activity_regularizer, y);
  }
  return outputs;
}

std::optional<RNNImpl::Result> RNNImpl::try_fused_kernel(const at::Tensor&, const Tensors&, bool) {
  return std::nullopt;
}

std::optional<RNNImpl::Result> RNNImpl::all_steps(const at::Tensor& x, Tensors states,
                                                  const at::Tensor& mask, bool training,
                                                  const at::Tensor& words) {
  if (!x.is_cpu() || x.dim() != 3 || x.scalar_type() != at::kFloat) return std::nullopt;
  // The steps that a mask shows are known only where its values are.
  const bool shapes_alone = graph::tracing_inference() || graph::records_for_compiler();
  if (mask.defined() && shapes_alone) return std::nullopt;
  const auto run = cell_->start({.training = training});
  auto* const gated = dynamic_cast<GatedRun*>(run.get());
  if (gated == nullptr || !gated->may_take_all_steps()) return std::nullopt;
  const int64_t batch = x.size(0);
  const int64_t time = x.size(1);
  const auto by_rows = [&] {
    return gated->dropped_inputs(x).transpose(0, 1).reshape({time * batch, x.size(2)});
  };
  const at::Tensor known = words.defined() && !gated->drops_inputs()
                               ? words.to(at::kLong).t().reshape({time * batch})
                               : at::Tensor();
  const auto by_steps = [&](const at::Tensor& y) {
    return y.view({time, batch, -1}).transpose(0, 1);
  };
  if (!mask.defined()) {
    kernels::SequenceSteps steps;
    steps.sizes.assign(static_cast<size_t>(time), batch);
    steps.words = known;
    const std::optional<at::Tensor> y = gated->all_steps(by_rows(), steps, states);
    if (!y) return std::nullopt;
    Result result{.last = states[0], .sequence = {}, .states = std::move(states)};
    if (options_.return_sequences) result.sequence = by_steps(*y);
    return result;
  }
  const at::Tensor shown = mask.to(at::kBool).t().contiguous();
  const kernels::MaskedOptions options{.sequence = options_.return_sequences,
                                       .zero_output = options_.zero_output_for_mask};
  std::optional<kernels::MaskedOutputs> found;
  if (graph::tracing()) {
    found = masked_steps_in_trace(
        *gated, {.rows = by_rows(), .words = known, .states = std::move(states)}, shown, options);
  } else {
    const kernels::ShownSteps steps(shown);
    if (steps.places.numel() == 0) return std::nullopt;
    found = masked_steps(*gated, {.rows = by_rows(), .words = known, .states = std::move(states)},
                         steps, options);
  }
  if (!found) return std::nullopt;
  Result result{.last = found->last, .sequence = {}, .states = std::move(found->states)};
  if (options_.return_sequences) result.sequence = by_steps(found->sequence);
  return result;
}

RNNImpl::Result RNNImpl::step_by_step(const at::Tensor& x, Tensors states, const at::Tensor& mask,
                                      bool training) {
  const auto run = cell_->start({.training = training});
  const Tensors steps = run->project(x.transpose(0, 1).contiguous()).unbind(0);
  const at::Tensor zeros = at::zeros({x.size(0), cell_->output_size()}, x.options());
  at::Tensor last = zeros;
  Tensors outputs;
  const Tensors counts = mask.defined() ? mask.to(at::kBool).unsqueeze(-1).unbind(1) : Tensors();
  for (size_t t = 0; t < steps.size(); ++t) {
    if (counts.empty()) {
      last = run->advance(steps[t], states);
    } else {
      Tensors next = states;
      const at::Tensor y = run->advance(steps[t], next);
      last = at::where(counts[t], y, options_.zero_output_for_mask ? zeros : last);
      for (size_t i = 0; i < states.size(); ++i) {
        states[i] = at::where(counts[t], next[i], states[i]);
      }
    }
    if (options_.return_sequences) outputs.push_back(last);
  }
  Result result{.last = last, .sequence = {}, .states = std::move(states)};
  if (options_.return_sequences) {
    result.sequence = outputs.empty() ? at::zeros({x.size(0), 0, cell_->output_size()}, x.options())
                                      : at::stack(outputs, 1);
  }
  return result;
}

void RNNImpl::reset_states() { reset_kept_states(*this, options_.stateful, states_); }

}  // namespace strata::layers
