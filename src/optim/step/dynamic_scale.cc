#include "optim/step/dynamic_scale.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>

#include "strata/core/error.h"

namespace strata::optimizers {

DynamicScale::DynamicScale(double initial_scale, int64_t growth_steps)
    : growth_steps_(growth_steps),
      counter_(at::full({}, 0, at::TensorOptions().dtype(at::kLong))),
      scale_(at::full({}, initial_scale, at::TensorOptions().dtype(at::kFloat))) {
  STRATA_CHECK(initial_scale > 0, kInvalidArgument, "[loss_scale_optimizer] got initial_scale ",
               initial_scale, "; expected more than 0");
  STRATA_CHECK(growth_steps > 0, kInvalidArgument,
               "[loss_scale_optimizer] got dynamic_growth_steps ", growth_steps,
               "; expected at least 1");
}

void DynamicScale::succeeded() {
  if (counter_.item<int64_t>() != growth_steps_ - 1) {
    counter_.add_(1);
    return;
  }
  counter_.zero_();
  const float doubled = scale_.item<float>() * 2;
  if (std::isfinite(doubled)) scale_.fill_(doubled);
}

void DynamicScale::failed() {
  counter_.zero_();
  scale_.fill_(std::max(scale_.item<float>() / 2, 1.0F));
}

}  // namespace strata::optimizers
