#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "strata/core/export.h"
#include "strata/optim/optimizer.h"

namespace strata::optimizers {

struct LossScaleOptions {
  double initial_scale = 32768;  ///< 2^15
  /// The number of good steps in a row after which the scale doubles.
  int64_t dynamic_growth_steps = 2000;
};

/// Wraps another optimizer and scales its loss against the underflow of 16-bit gradients, by a
/// factor that adapts. A step whose gradients are not all finite, on any replica, is skipped and
/// halves the factor, to 1 at least. The factor doubles after `dynamic_growth_steps` good steps,
/// while that is finite in float32. A skipped step is no iteration, as in Keras 3 (tf.keras counts
/// it): schedules and Adam's bias correction see the updates alone.
///
///     LossScaleOptimizer optimizer(Adam({.learning_rate = 1e-3}));
///
/// `minimize` scales and divides by itself, before backward: gradients in 16 bits are as large as
/// those of one device that has the whole batch. Cost: the gradients are added up one pass earlier,
/// and a step has two more barriers. Source: keras.optimizers.LossScaleOptimizer.
class STRATA_API LossScaleOptimizer : public Optimizer {
 public:
  /// @param inner  An rvalue: `Adam(...)`. Its own `loss_scale_factor` is ignored.
  /// @throws Error kInvalidArgument: a scale or a number of steps that is not positive.
  // NOLINTBEGIN(bugprone-*forwarding-reference*): a reference is not derived from Optimizer
  template <typename O>
  requires std::derived_from<O, Optimizer> &&
      (!std::is_const_v<O>)explicit LossScaleOptimizer(O&& inner,
                                                       const LossScaleOptions& options = {})
      : LossScaleOptimizer(std::shared_ptr<Optimizer>(std::make_shared<O>(std::move(inner))),
                           options) {}
  // NOLINTEND(bugprone-*forwarding-reference*)
  explicit LossScaleOptimizer(std::shared_ptr<Optimizer> inner,
                              const LossScaleOptions& options = {});

  /// The inner optimizer, for its class and options. Variables and state are this one's, too.
  const Optimizer& inner_optimizer() const { return *inner_; }
  const LossScaleOptions& options() const { return options_; }
  /// The current factor: `dynamic_scale` of Keras.
  double loss_scale() const;

 private:
  std::shared_ptr<Optimizer> inner_;
  LossScaleOptions options_;
};

}  // namespace strata::optimizers
