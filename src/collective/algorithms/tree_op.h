#pragma once

#include "strata/collective/reduce_op.h"
#include "tensor/tree_sum.h"

namespace strata::collective {

/// How values are joined in the tree; a mean is a sum that is divided afterwards.
inline tensor::TreeOp tree_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return tensor::TreeOp::kMin;
    case ReduceOp::kMax:
      return tensor::TreeOp::kMax;
    default:
      return tensor::TreeOp::kSum;
  }
}

}  // namespace strata::collective
