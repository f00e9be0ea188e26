#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "strata/core/export.h"

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
