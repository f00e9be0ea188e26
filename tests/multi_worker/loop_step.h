#pragma once

#include <cstdint>
#include <functional>

#include "strata/data/example.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizer.h"
#include "strata/strategies/distributed_dataset.h"
#include "strata/strategies/replicate.h"
#include "strata/strategies/strategy.h"

namespace strata::test {

/// A step of a classifier in a loop of one's own. @param use  Told of each replica's rows.
/// @return the loss of the global batch.
template <typename Net>
double loop_step(Strategy& strategy, const Replicated<Net>& net, optimizers::Optimizer& optimizer,
                 const DistributedDataset::Element& batch,
                 const std::function<void(const data::Example& part)>& use = {}) {
  const PerReplica<int64_t> rows =
      strategy.run([](const data::Example& part) { return part.num_rows(); }, batch);
  const int64_t total = strategy.reduce(ReduceOp::kSum, rows);
  const PerReplica<double> shares = strategy.run(
      [&](const data::Example& part) {
        if (use) use(part);
        const at::Tensor loss =
            compute_average_loss(losses::sparse_categorical_crossentropy(
                                     part.y(), net->forward(part.x()), {.from_logits = true}),
                                 {.global_batch_size = total});
        optimizer.minimize(loss);
        return loss.item<double>();
      },
      batch);
  return strategy.reduce(ReduceOp::kSum, shares);
}

}  // namespace strata::test
