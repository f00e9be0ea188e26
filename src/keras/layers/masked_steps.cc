#include "keras/layers/masked_steps.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "graph/host_call.h"
#include "kernels/autograd_node.h"

namespace strata::layers {

using keras::Tensors;

ShownSteps::ShownSteps(const at::Tensor& mask) : shown(mask) {
  const at::Tensor counts = shown.sum(1);
  sizes.assign(counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + shown.size(0));
  places = shown.flatten().nonzero().flatten();
}

std::optional<MaskedOutputs> masked_steps(GatedRun& run, const MaskedInputs& inputs,
                                          const ShownSteps& steps, const MaskedOptions& options) {
  const at::Tensor& shown = steps.shown;
  const int64_t time = shown.size(0);
  const int64_t batch = shown.size(1);
  kernels::SequenceSteps sequence{.rows = steps.places.remainder(batch), .sizes = steps.sizes};
  const at::Tensor rows = inputs.rows.index_select(0, steps.places);
  if (inputs.words.defined()) sequence.words = inputs.words.index_select(0, steps.places);
  Tensors states = inputs.states;
  const std::optional<at::Tensor> y = run.all_steps(rows, sequence, states);
  if (!y) return std::nullopt;
  MaskedOutputs result{.last = {}, .sequence = {}, .states = std::move(states)};
  const at::Tensor has_output = options.zero_output ? shown.select(0, time - 1) : shown.any(0);
  result.last =
      at::where(has_output.unsqueeze(1), result.states[0], at::zeros({}, inputs.rows.options()));
  if (!options.sequence) return result;
  // Each step's row of y, or of its last step that counts; behind them all a row of zeros.
  const int64_t none = y->size(0);
  at::Tensor from = at::where(shown.flatten(), shown.flatten().cumsum(0) - 1, -1);
  if (!options.zero_output) {
    from = std::get<0>(from.view({time, batch}).cummax(0)).flatten();
  }
  from = at::where(from < 0, none, from);
  result.sequence =
      at::cat({*y, at::zeros({1, y->size(1)}, inputs.rows.options())}).index_select(0, from);
  return result;
}

namespace {

using torch::autograd::variable_list;

/// Nothing counts: outputs are zeros, the states stay.
MaskedOutputs hidden_steps(const MaskedInputs& inputs, const ShownSteps& steps,
                           const MaskedOptions& options) {
  MaskedOutputs result{.last = at::zeros_like(inputs.states[0]), .sequence = {}, .states = {}};
  for (const at::Tensor& state : inputs.states) result.states.push_back(state.clone());
  if (options.sequence) {
    result.sequence =
        at::zeros({steps.shown.numel(), inputs.states[0].size(1)}, inputs.states[0].options());
  }
  return result;
}

Tensors flat(const MaskedOutputs& outputs) {
  Tensors all{outputs.last};
  if (outputs.sequence.defined()) all.push_back(outputs.sequence);
  all.insert(all.end(), outputs.states.begin(), outputs.states.end());
  return all;
}

Tensors weights_of(const GatedRun& run) {
  const GatedWeights& weights = run.weights();
  return {weights.kernel, weights.recurrent, weights.input_bias, weights.recurrent_bias};
}

bool wants(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

/// The node of one layer in one graph: what a run's forward leaves for its backward.
struct MaskedNode {
  RNNCellImpl* cell;
  keras::Call call;
  MaskedOptions options;
  size_t num_states;
  std::vector<bool> wanted;  // gradients: of rows, states, weights

  Tensors outputs;
  Tensors leaves;

  /// @param given  rows, shown, words, states...
  Tensors forward(const Tensors& given) {
    const bool differentiates = std::find(wanted.begin(), wanted.end(), true) != wanted.end();
    const at::AutoGradMode mode(differentiates);
    const auto leaf = [&](const at::Tensor& tensor, size_t i) {
      return wanted[i] ? tensor.detach().requires_grad_() : tensor;
    };
    MaskedInputs inputs{.rows = leaf(given[0], 0), .words = given[2], .states = {}};
    for (size_t s = 0; s < num_states; ++s) inputs.states.push_back(leaf(given[3 + s], 1 + s));
    const ShownSteps steps(given[1]);
    const auto run = cell->start(call);
    auto& gated = dynamic_cast<GatedRun&>(*run);
    std::optional<MaskedOutputs> result;
    if (steps.places.numel() > 0) {
      result = masked_steps(gated, inputs, steps, options);
      STRATA_CHECK(result.has_value(), kInternal, "[keras] Layer \"", cell->name(),
                   "\": its operator applied when the step was recorded, and does not now; compile "
                   "with run_eagerly = true, and report it");
    } else {
      result = hidden_steps(inputs, steps, options);
    }
    Tensors all = flat(*result);
    Tensors detached;
    for (const at::Tensor& each : all) detached.push_back(each.detach().contiguous());
    if (!differentiates) return detached;
    outputs = std::move(all);
    leaves = {inputs.rows};
    leaves.insert(leaves.end(), inputs.states.begin(), inputs.states.end());
    for (const at::Tensor& weight : weights_of(gated)) leaves.push_back(weight);
    return detached;
  }

  /// @return Those that are wanted.
  Tensors backward(const Tensors& gradients) {
    variable_list from, with, to;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
      from.push_back(outputs[i]);
      with.push_back(gradients[i]);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) to.push_back(leaves[i]);
    }
    variable_list results(to.size());
    if (!from.empty()) {
      results = torch::autograd::grad(from, to, with, /*retain_graph=*/false,
                                      /*create_graph=*/false, /*allow_unused=*/true);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      results[i] = results[i].defined() ? results[i].detach().contiguous()
                                        : at::zeros(to[i].sizes(), to[i].options());
    }
    outputs.clear();
    leaves.clear();
    return results;
  }
};

struct MaskedStepsBackward final : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const auto backward = [node = node](const Tensors& given) { return node->backward(given); };
    const Tensors found =
        graph::call_host("strata::masked_steps_backward", gradients, layouts, backward);
    variable_list all(node->wanted.size());
    auto next = found.begin();
    for (size_t i = 0; i < all.size(); ++i) {
      if (node->wanted[i]) all[i] = *next++;
    }
    return all;
  }
  std::string name() const override { return "MaskedStepsBackward"; }

  std::shared_ptr<MaskedNode> node;
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

std::optional<MaskedOutputs> masked_steps_in_trace(RNNCellImpl& cell, const keras::Call& call,
                                                   const MaskedInputs& inputs,
                                                   const at::Tensor& shown,
                                                   const MaskedOptions& options) {
  const auto run = cell.start(call);
  auto& gated = dynamic_cast<GatedRun&>(*run);
  if (!applies(gated, inputs, shown)) return std::nullopt;
  Tensors differentiable{inputs.rows};
  differentiable.insert(differentiable.end(), inputs.states.begin(), inputs.states.end());
  for (const at::Tensor& weight : weights_of(gated)) differentiable.push_back(weight);

  auto node = std::make_shared<MaskedNode>();
  node->cell = &cell;
  node->call = call;
  node->options = options;
  node->num_states = inputs.states.size();
  std::vector<graph::HostResult> gradients;
  for (const at::Tensor& each : differentiable) {
    const bool wanted = at::GradMode::is_enabled() && wants(each);
    node->wanted.push_back(wanted);
    if (wanted) gradients.push_back(layout_of(each));
  }

  const at::Tensor& state = inputs.states[0];
  std::vector<graph::HostResult> results{layout_of(state)};
  if (options.sequence) {
    results.push_back({{shown.numel(), state.size(1)}, state.scalar_type()});
  }
  for (const at::Tensor& each : inputs.states) results.push_back(layout_of(each));
  Tensors given{inputs.rows, shown, inputs.words};
  given.insert(given.end(), inputs.states.begin(), inputs.states.end());
  Tensors made =
      graph::call_host("strata::masked_steps", given, results,
                       [node](const Tensors& tensors) { return node->forward(tensors); });
  if (!gradients.empty()) {
    const auto backward = kernels::make_node<MaskedStepsBackward>();
    backward->node = node;
    backward->layouts = std::move(gradients);
    torch::autograd::edge_list edges;
    for (size_t i = 0; i < differentiable.size(); ++i) {
      edges.push_back(node->wanted[i] ? torch::autograd::impl::gradient_edge(differentiable[i])
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
