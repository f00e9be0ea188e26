#include "strata/optim/loss_scale_optimizer.h"

#include <ATen/ops/scalar_tensor.h>

#include "strata/core/error.h"

namespace strata::optimizers {
namespace {

Optimizer& checked(const std::shared_ptr<Optimizer>& inner) {
  STRATA_CHECK(inner != nullptr, kInvalidArgument,
               "[loss_scale_optimizer] got no optimizer; pass the one whose loss is to be scaled");
  return *inner;
}

}  // namespace

LossScaleOptimizer::LossScaleOptimizer(std::shared_ptr<Optimizer> inner,
                                       const LossScaleOptions& options)
    : Optimizer(checked(inner), options.initial_scale, options.dynamic_growth_steps),
      inner_(std::move(inner)),
      options_(options) {}

double LossScaleOptimizer::loss_scale() const {
  return scale_loss(at::scalar_tensor(1.0, at::kDouble)).item<double>();
}

}  // namespace strata::optimizers
