#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "strata/core/export.h"

namespace strata {

/// The operation that reduces the values of several replicas to one. Source:
/// tf.distribute.ReduceOp; minimum and maximum are additions.
enum class ReduceOp { kSum, kMean, kMin, kMax };

/// "SUM", "MEAN", "MIN" or "MAX".
STRATA_API std::string_view reduce_op_name(ReduceOp op);

/// @param name  As `reduce_op_name` prints it, in any case.
/// @throws Error  kInvalidArgument: no such operation.
STRATA_API ReduceOp parse_reduce_op(std::string_view name);

namespace collective {

/// Returns `values[0] op values[1] op ...` as a new tensor on the device of `values[0]`. Sums
/// follow the fixed binary tree over the indices (tensor/tree_sum.h) for every dtype and device, so
/// the bits depend on the values alone. The mean of integers is a float (float64 where TensorFlow's
/// is).
///
/// The sum of sparse values (COO) concatenates their entries in the order of replicas; equal
/// indices stay apart. The mean divides each.
///
/// @param values  One per replica, each `[*shape]`, equal shape, dtype and layout; undefined ones
///   are absent.
/// @throws Error  kInvalidArgument: shapes, dtypes or layouts differ; other layouts than dense and
///   COO; minimum and maximum of sparse or complex values; nothing to reduce.
/// Cost: one pass over the values.
STRATA_API at::Tensor reduce_in_order(const std::vector<at::Tensor>& values, ReduceOp op);

}  // namespace collective
}  // namespace strata
