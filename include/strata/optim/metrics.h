#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
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

/// The weighted sum of all values since the last reset, over all replicas; otherwise like Mean.
/// Source: keras.metrics.Sum under tf.distribute.
class STRATA_API Sum {
 public:
  explicit Sum(const std::string& name = "sum");

  /// @param values  Any shape. @param weight  Undefined for 1; one for each example or each value.
  void update(const at::Tensor& values, const at::Tensor& weight = {});

  double result() const;
  void reset();
  void build();  ///< See Mean::build.

  const std::string& name() const;
  const Variable& total() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::metrics

/// Metrics for custom loops: one value for each example, 0 or 1 in float32, without gradients.
/// Their mean over examples is the metric. Losses serve as metrics too (losses.h).
///
/// `y_pred` is `[batch, ..., n]`; results are `[batch, ...]`, except `accuracy` and
/// `binary_accuracy`, which keep every element. Batches of 0 rows give `[0]`.
///
/// @throws Error kInvalidArgument: shapes do not fit.
/// Source: keras.metrics 3.15.
namespace strata::metrics {

/// 1 where an element of `y_pred` equals that of `y_true`.
STRATA_API at::Tensor accuracy(const at::Tensor& y_true, const at::Tensor& y_pred);

/// 1 where an element, thresholded (above `threshold` is 1), equals `y_true`.
STRATA_API at::Tensor binary_accuracy(const at::Tensor& y_true, const at::Tensor& y_pred,
                                      double threshold = 0.5);

/// 1 where the largest element of `y_pred` is at the place of the 1 in `y_true` (one-hot); of equal
/// elements the first counts.
STRATA_API at::Tensor categorical_accuracy(const at::Tensor& y_true, const at::Tensor& y_pred);

/// `y_true` has class numbers, `[batch, ...]` or `[batch, ..., 1]`, any dtype.
STRATA_API at::Tensor sparse_categorical_accuracy(const at::Tensor& y_true,
                                                  const at::Tensor& y_pred);

/// 1 where fewer than `k` elements are larger than the right one: ties count as right. 0 where the
/// label is out of range or the row has a value that is not finite.
STRATA_API at::Tensor top_k_categorical_accuracy(const at::Tensor& y_true, const at::Tensor& y_pred,
                                                 int64_t k = 5);
STRATA_API at::Tensor sparse_top_k_categorical_accuracy(const at::Tensor& y_true,
                                                        const at::Tensor& y_pred, int64_t k = 5);

}  // namespace strata::metrics
