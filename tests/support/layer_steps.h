#pragma once

#include <torch/torch.h>

#include <optional>
#include <vector>

#include "strata/graph/function.h"
#include "strata/optim/optimizers.h"
#include "support/layer_cases.h"

namespace strata::test {

/// Two steps of a layer: outputs, gradients of its inputs, and the weights after SGD.
/// @param elsewhere  Not in this process: as a function.
template <typename AnyStrategy>
Tensors train_layer(AnyStrategy& strategy, const Json& test, bool elsewhere) {
  const Tensors inputs = tensors(&test.at("inputs"));
  const Tensors shown = masks(test.find("masks"));
  const Tensors cotangents = tensors(test.find("output_gradients"));
  const keras::Layer layer = strategy.scope([&] {
    keras::Layer made = keras::layer_from_config(test.at("layer"));
    made->ensure_built(shapes_with_free_batch(inputs), test.at("call"));
    set_weights(*made, tensors(&test.at("weights")));
    return made;
  });
  std::vector<Variable> trained;
  for (const keras::Weight& weight : layer->weights()) {
    if (weight.trainable && weight.variable.trainable()) trained.push_back(weight.variable);
  }
  std::optional<optimizers::SGD> optimizer;
  if (!trained.empty()) optimizer.emplace(trained, optimizers::SGDOptions{.learning_rate = 0.1});
  const auto step = [&](const at::Tensor& one) {
    Tensors given;
    for (const at::Tensor& x : inputs) {
      // Made of the input, as what comes in a batch.
      given.push_back((x * one.to(x.scalar_type())).detach());
      if (x.is_floating_point()) given.back().requires_grad_();
    }
    const LayerResult result = run_layer(layer, given, test, shown);
    at::Tensor loss = result.loss;
    Tensors results;
    for (size_t i = 0; i < result.outputs.values.size(); ++i) {
      const at::Tensor& y = result.outputs.values[i];
      results.push_back(y.detach().contiguous());
      if (i >= cotangents.size()) continue;
      const at::Tensor part = (y * cotangents[i]).sum();
      loss = loss.defined() ? loss + part : part;
    }
    if (optimizer && loss.defined() && loss.requires_grad()) {
      optimizer->minimize(loss.to(at::kFloat));
    } else if (loss.defined() && loss.requires_grad()) {
      std::vector<at::Tensor> leaves;
      for (const at::Tensor& x : given) {
        if (x.requires_grad()) leaves.push_back(x);
      }
      for (const at::Tensor& gradient :
           torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, true)) {
        if (gradient.defined()) results.push_back(gradient.contiguous());
      }
    }
    return results;
  };
  const auto function = strata::function(step, {.name = "layer"});
  Tensors all;
  for (int i = 0; i < 2; ++i) {
    const at::Tensor one = torch::ones({1});
    const auto results = elsewhere ? strategy.run(function, one) : strategy.run(step, one);
    for (const at::Tensor& each : results.get(0)) all.push_back(each);
  }
  if constexpr (requires { strategy.fetch(); }) strategy.fetch();
  for (const keras::Weight& weight : layer->weights()) all.push_back(weight.variable.on_replica(0));
  return all;
}

}  // namespace strata::test
