#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "strata/data/example.h"
#include "strata/graph/function.h"
#include "strata/optim/losses.h"
#include "strata/strategies/replicate.h"
#include "strata/strategies/strategy.h"
#include "suites/serve.h"

namespace strata::bench {

/// Global batches, those of this process's replicas, on their devices.
using Batches = std::vector<PerReplica<data::Example>>;

/// Step i, replica r gets batch i * replicas + r.
/// @param pool  x `[batches, batch, ...]`, y `[batches, batch, ...]`.
Batches distribute_batches(const data::Example& pool, const Strategy& strategy);

/// The values of some variables, to be put back: a network that learns the harness's few batches by
/// heart has more zeros behind its relus with each step, which strata leaves out of products. So
/// each sample begins with the weights that a training begins with.
class InitialWeights {
 public:
  explicit InitialWeights(std::vector<Variable> variables) : variables_(std::move(variables)) {
    for (const Variable& variable : variables_) values_.push_back(variable.value().clone());
  }
  void restore() {
    for (size_t i = 0; i < variables_.size(); ++i) variables_[i].assign(values_[i]);
  }

 private:
  std::vector<Variable> variables_;
  std::vector<at::Tensor> values_;
};

/// Serves a custom loop under any strategy, of logits and sparse cross-entropy.
/// @param make_net  Returns a module.
/// @param make_optimizer  Takes its variables.
/// @param as_function  The step is a strata::function.
template <typename Factory, typename Optimizer>
void serve_training(Strategy& strategy, const Batches& batches, const Factory& make_net,
                    const Optimizer& make_optimizer, bool as_function = false) {
  auto net = strategy.replicate(make_net);
  auto optimizer = make_optimizer(net.variables());
  InitialWeights weights(net.variables());
  const int64_t labels = batches.at(0).get(0).y().numel() * strategy.num_replicas_in_sync();
  const auto step = [&](const data::Example& batch) {
    const auto loss =
        compute_average_loss(losses::sparse_categorical_crossentropy(
                                 batch.y(), net->forward(batch.x()), {.from_logits = true}),
                             labels);
    optimizer.minimize(loss);
    return loss.detach();
  };
  size_t at = 0;
  const auto serve_step = [&](const auto& run_step) {
    const auto steps = [&](long count) {
      PerReplica<at::Tensor> loss;
      for (long i = 0; i < count; ++i, at = (at + 1) % batches.size()) {
        loss = strategy.run(run_step, batches[at]);
      }
      return strategy.reduce(ReduceOp::kSum, loss).template item<double>();
    };
    serve(steps, [&] { weights.restore(); });
  };
  if (as_function) {
    serve_step(function(step, {.name = "step"}));
  } else {
    serve_step(step);
  }
}

}  // namespace strata::bench
