#include "keras/layers/masked_steps.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/host_call.h"
#include "kernels/autograd_node.h"

namespace strata::layers {

using keras::Tensors;
using kernels::MaskedInputs;
using kernels::MaskedLayer;
using kernels::MaskedLayerRun;
using kernels::MaskedOptions;
using kernels::MaskedOutputs;
using torch::autograd::variable_list;

std::optional<MaskedOutputs> masked_steps(GatedRun& run, const MaskedInputs& inputs,
                                          const kernels::ShownSteps& steps,
                                          const MaskedOptions& options) {
  const auto all_steps = [&run](const at::Tensor& rows, const kernels::SequenceSteps& sequence,
                                Tensors& states) { return run.all_steps(rows, sequence, states); };
  return kernels::masked_steps(all_steps, inputs, steps, options);
}

namespace {

struct MaskedStepsBackward final : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const size_t outputs = layer.num_outputs();
    Tensors inputs(gradients.begin(), gradients.end());
    inputs.insert(inputs.end(), given.begin(), given.end());  // a server computes forward again
    const auto backward = [run = run, outputs](const Tensors& tensors) {
      return run->backward(
          {tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(outputs)});
    };
    const Tensors found = graph::call_host("strata::masked_steps_backward", inputs, layouts,
                                           backward, layer.numbers());
    variable_list all(layer.wanted.size());
    auto next = found.begin();
    for (size_t i = 0; i < all.size(); ++i) {
      if (layer.wanted[i]) all[i] = *next++;
    }
    return all;
  }
  void release_variables() override { given.clear(); }
  std::string name() const override { return "MaskedStepsBackward"; }

  MaskedLayer layer;
  std::shared_ptr<MaskedLayerRun> run;  // what a run's forward leaves for its backward
  Tensors given;
  std::vector<graph::HostResult> layouts;  // of the gradients that are wanted
};

/// Whether the operator applies does not depend on how many rows count. What this records is dead.
bool applies(GatedRun& run, const MaskedInputs& inputs, const at::Tensor& shown) {
  kernels::SequenceSteps all;
  all.sizes.assign(static_cast<size_t>(shown.size(0)), shown.size(1));
  Tensors states = inputs.states;
  return run.all_steps(inputs.rows, all, states).has_value();
}

graph::HostResult layout_of(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.scalar_type()};
}

}  // namespace

std::optional<MaskedOutputs> masked_steps_in_trace(GatedRun& gated, const MaskedInputs& inputs,
                                                   const at::Tensor& shown,
                                                   const MaskedOptions& options) {
  if (!applies(gated, inputs, shown)) return std::nullopt;
  const GatedWeights& weights = gated.weights();
  Tensors differentiable{inputs.rows};
  differentiable.insert(differentiable.end(), inputs.states.begin(), inputs.states.end());
  differentiable.insert(differentiable.end(), {weights.kernel, weights.recurrent,
                                               weights.input_bias, weights.recurrent_bias});
  MaskedLayer layer{.options = options, .num_states = inputs.states.size(), .wanted = {}};
  std::vector<graph::HostResult> gradients;
  for (const at::Tensor& each : differentiable) {
    const bool wanted = at::GradMode::is_enabled() && each.defined() && each.requires_grad();
    layer.wanted.push_back(wanted);
    if (wanted) gradients.push_back(layout_of(each));
  }

  const at::Tensor& state = inputs.states[0];
  std::vector<graph::HostResult> results{layout_of(state)};
  if (options.sequence) {
    results.push_back({{shown.numel(), state.size(1)}, state.scalar_type()});
  }
  for (const at::Tensor& each : inputs.states) results.push_back(layout_of(each));
  Tensors given{inputs.rows, shown, inputs.words};
  given.insert(given.end(), differentiable.begin() + 1, differentiable.end());
  const auto run = std::make_shared<MaskedLayerRun>(layer);
  Tensors made = graph::call_host(
      "strata::masked_steps", given, results,
      [run](const Tensors& tensors) { return run->forward(tensors); }, layer.numbers());
  if (!gradients.empty()) {
    const auto backward = kernels::make_node<MaskedStepsBackward>();
    backward->layer = layer;
    backward->run = run;
    for (const at::Tensor& each : given) {
      backward->given.push_back(each.defined() ? each.detach() : each);
    }
    backward->layouts = std::move(gradients);
    torch::autograd::edge_list edges;
    for (size_t i = 0; i < differentiable.size(); ++i) {
      edges.push_back(layer.wanted[i] ? torch::autograd::impl::gradient_edge(differentiable[i])
                                      : torch::autograd::Edge());
    }
    backward->set_next_edges(std::move(edges));
    torch::autograd::set_history(made, backward);
  }
  MaskedOutputs outputs{.last = made[0], .sequence = {}, .states = {}};
  if (options.sequence) outputs.sequence = made[1];
  outputs.states.assign(made.begin() + (options.sequence ? 2 : 1), made.end());
  return outputs;
}

}  // namespace strata::layers
