#include "kernels/masked_recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "strata/core/error.h"

namespace strata::kernels {

using Tensors = std::vector<at::Tensor>;

ShownSteps::ShownSteps(const at::Tensor& mask) : shown(mask) {
  const at::Tensor counts = shown.sum(1);
  sizes.assign(counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + shown.size(0));
  places = shown.flatten().nonzero().flatten();
}

std::optional<MaskedOutputs> masked_steps(const AllSteps& all_steps, const MaskedInputs& inputs,
                                          const ShownSteps& steps, const MaskedOptions& options) {
  const at::Tensor& shown = steps.shown;
  const int64_t time = shown.size(0);
  const int64_t batch = shown.size(1);
  SequenceSteps sequence{.rows = steps.places.remainder(batch), .sizes = steps.sizes};
  const at::Tensor rows = inputs.rows.index_select(0, steps.places);
  if (inputs.words.defined()) sequence.words = inputs.words.index_select(0, steps.places);
  std::vector<at::Tensor> states = inputs.states;
  const std::optional<at::Tensor> y = all_steps(rows, sequence, states);
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

constexpr size_t kWeights = 4;  // kernel, recurrent, bias, recurrent bias

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

/// @param weights  kernel, recurrent, bias, recurrent bias.
AllSteps steps_of(const Tensors& weights) {
  return [weights](const at::Tensor& rows, const SequenceSteps& steps,
                   Tensors& states) -> std::optional<at::Tensor> {
    if (states.size() == 2) {
      auto result = lstm(rows, states[0], states[1], weights[0], weights[1], weights[2], steps);
      if (!result) return std::nullopt;
      states = {std::move(result->h), std::move(result->c)};
      return std::move(result->y);
    }
    auto result = gru(rows, states[0], weights[0], weights[1], weights[2], weights[3], steps,
                      /*reset_first=*/false);
    if (!result) return std::nullopt;
    states = {std::move(result->h)};
    return std::move(result->y);
  };
}

}  // namespace

std::vector<double> MaskedLayer::numbers() const {
  std::vector<double> all = {static_cast<double>(num_states), options.sequence ? 1.0 : 0.0,
                             options.zero_output ? 1.0 : 0.0};
  for (const bool each : wanted) all.push_back(each ? 1 : 0);
  return all;
}

std::optional<MaskedLayer> MaskedLayer::of_numbers(const std::vector<double>& numbers) {
  constexpr size_t kSettings = 3;
  if (numbers.size() < kSettings || (numbers[0] != 1 && numbers[0] != 2)) return std::nullopt;
  const auto states = static_cast<size_t>(numbers[0]);
  const bool flags = std::all_of(numbers.begin() + 1, numbers.end(),
                                 [](double each) { return each == 0 || each == 1; });
  if (!flags || numbers.size() != kSettings + 1 + states + kWeights) return std::nullopt;
  MaskedLayer layer{.options = {.sequence = numbers[1] == 1, .zero_output = numbers[2] == 1},
                    .num_states = states,
                    .wanted = {}};
  for (size_t i = kSettings; i < numbers.size(); ++i) layer.wanted.push_back(numbers[i] == 1);
  return layer;
}

Tensors masked_backward(const MaskedLayer& layer, const Tensors& tensors) {
  const auto given = tensors.begin() + static_cast<std::ptrdiff_t>(layer.num_outputs());
  MaskedLayerRun run(layer);
  run.forward({given, tensors.end()});
  return run.backward({tensors.begin(), given});
}

Tensors MaskedLayerRun::forward(const Tensors& given) {
  constexpr size_t kBeforeStates = 3;
  const bool differentiates = std::ranges::find(layer_.wanted, true) != layer_.wanted.end();
  const at::AutoGradMode mode(differentiates);
  // Rows, states and weights, in the order of `wanted`.
  leaves_ = {given[0]};
  leaves_.insert(leaves_.end(), given.begin() + kBeforeStates, given.end());
  STRATA_DCHECK(leaves_.size() == 1 + layer_.num_states + kWeights);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!leaves_[i].defined()) continue;
    leaves_[i] = leaves_[i].detach();
    if (layer_.wanted[i]) leaves_[i].requires_grad_();
  }
  const auto states = leaves_.begin() + 1;
  const auto weights = states + static_cast<std::ptrdiff_t>(layer_.num_states);
  const MaskedInputs inputs{.rows = leaves_[0], .words = given[2], .states = {states, weights}};
  const ShownSteps steps(given[1]);
  std::optional<MaskedOutputs> result;
  if (steps.places.numel() > 0) {
    result = masked_steps(steps_of({weights, leaves_.end()}), inputs, steps, layer_.options);
    STRATA_CHECK(result.has_value(), kUnimplemented,
                 "[recurrent] a layer behind a mask is to run where strata's kernels do not apply; "
                 "run it on a processor of the kind that it was recorded on");
  } else {
    result = hidden_steps(inputs, steps, layer_.options);
  }
  outputs_ = {std::move(result->last)};
  if (layer_.options.sequence) outputs_.push_back(std::move(result->sequence));
  outputs_.insert(outputs_.end(), result->states.begin(), result->states.end());
  Tensors detached;
  for (const at::Tensor& each : outputs_) detached.push_back(each.detach().contiguous());
  if (!differentiates) {
    outputs_.clear();
    leaves_.clear();
  }
  return detached;
}

Tensors MaskedLayerRun::backward(const Tensors& gradients) {
  const Tensors outputs = std::exchange(outputs_, {});
  const Tensors leaves = std::exchange(leaves_, {});
  torch::autograd::variable_list from, with, to;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
    from.push_back(outputs[i]);
    with.push_back(gradients[i]);
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (layer_.wanted[i]) to.push_back(leaves[i]);
  }
  torch::autograd::variable_list results(to.size());
  if (!from.empty()) {
    results = torch::autograd::grad(from, to, with, /*retain_graph=*/false,
                                    /*create_graph=*/false, /*allow_unused=*/true);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = results[i].defined() ? results[i].detach().contiguous()
                                      : at::zeros(to[i].sizes(), to[i].options());
  }
  return results;
}

}  // namespace strata::kernels
