#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/runtime/variable.h"

namespace strata::metrics {

/// The weighted mean of all values since the last reset, over all replicas: each adds to its own
/// total and count, and reading sums these. Make it in the strategy's scope, outside `run`. A
/// handle: copies are one mean. Source: keras.metrics.Mean under tf.distribute.
class STRATA_API Mean {
 public:
  explicit Mean(const std::string& name = "mean");

  /// Adds values, in a replica or outside `run`.
  /// @param values  `[batch, ...]`: an example is the mean over its other axes; empty ones do not
  ///                count.
  /// @param weight  Undefined for 1; one for each example or each value; a scalar makes one example
  ///                of everything.
  /// Cost: a microsecond on the CPU, for float32 values.
  void update(const at::Tensor& values, const at::Tensor& weight = {});
  void update(double value, double weight = 1);

  /// Returns total / count in float64; 0 before the first update. Outside `run` it is over all
  /// replicas; inside, this replica's own.
  double result() const;
  void reset();

  /// Moves a mean that was made outside every scope, with its state, to the strategy of the current
  /// scope. @throws Error kFailedPrecondition: it belongs to another strategy, or in `run`.
  void build();

  const std::string& name() const;
  const Variable& total() const;
  const Variable& count() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::metrics
