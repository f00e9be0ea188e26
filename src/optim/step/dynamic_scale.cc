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

double DynamicScale::after(bool finite) const {
  const auto scale = scale_.item<float>();
  if (!finite) return std::max(scale / 2, 1.0F);
  const float doubled = scale * 2;
  return grows_next() && std::isfinite(doubled) ? doubled : scale;
}

bool DynamicScale::grows_next() const { return counter_.item<int64_t>() == growth_steps_ - 1; }

void DynamicScale::succeeded() {
  scale_.fill_(after(true));
  if (grows_next()) {
    counter_.zero_();
  } else {
    counter_.add_(1);
  }
}

void DynamicScale::failed() {
  counter_.zero_();
  scale_.fill_(after(false));
}

}  // namespace strata::optimizers
