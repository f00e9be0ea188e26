#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "strata/core/export.h"

/// Metrics for custom loops: one value an example, 0 or 1 in float32, without gradients. Their mean
/// over examples is the metric. Losses serve as metrics too (losses.h).
///
/// `y_pred` is `[batch, ..., n]`; results are `[batch, ...]`, except `accuracy` and
/// `binary_accuracy`, which keep every element. Batches of 0 rows give `[0]`.
///
/// @throws Error kInvalidArgument: shapes do not fit.
/// Source: keras.metrics 3.15.
namespace strata::metrics {

/// Whether each element of `y_pred` equals that of `y_true`.
STRATA_API at::Tensor accuracy(const at::Tensor& y_true, const at::Tensor& y_pred);

/// Whether each element lies on the side of `threshold` (above it is 1) that `y_true` says.
STRATA_API at::Tensor binary_accuracy(const at::Tensor& y_true, const at::Tensor& y_pred,
                                      double threshold = 0.5);

/// `y_true`: one-hot. Whether the largest element is at the same place; of equals the first counts.
STRATA_API at::Tensor categorical_accuracy(const at::Tensor& y_true, const at::Tensor& y_pred);

/// `y_true`: class numbers, `[batch, ...]` or `[batch, ..., 1]`, any dtype.
STRATA_API at::Tensor sparse_categorical_accuracy(const at::Tensor& y_true,
                                                  const at::Tensor& y_pred);

/// Whether fewer than `k` elements are larger than the right one: ties count for us. False where
/// the label is out of range or the row has a value that is not finite.
STRATA_API at::Tensor top_k_categorical_accuracy(const at::Tensor& y_true, const at::Tensor& y_pred,
                                                 int64_t k = 5);
STRATA_API at::Tensor sparse_top_k_categorical_accuracy(const at::Tensor& y_true,
                                                        const at::Tensor& y_pred, int64_t k = 5);

}  // namespace strata::metrics
