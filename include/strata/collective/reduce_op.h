#pragma once

#include <string_view>

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

}  // namespace strata
