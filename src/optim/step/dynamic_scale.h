#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::optimizers {

/// A loss scale that finds its own size, which stays finite, and from 1 on. Source:
/// tf.mixed_precision.LossScaleOptimizer; Keras 3's has no bounds.
class DynamicScale {
 public:
  /// @throws Error kInvalidArgument: not positive.
  DynamicScale(double initial_scale, int64_t growth_steps);

  double value() const { return scale_.item<double>(); }
  /// What it is after one more step, of which the gradients were finite, or not.
  double after(bool finite) const;
  /// After a step with finite gradients.
  void succeeded();
  /// After one that did not take place.
  void failed();

  const at::Tensor& counter() const { return counter_; }  ///< int64: good steps in a row.
  const at::Tensor& scale() const { return scale_; }      ///< float32

 private:
  bool grows_next() const;  // if the next step has finite gradients

  int64_t growth_steps_;
  at::Tensor counter_;
  at::Tensor scale_;
};

}  // namespace strata::optimizers
