#pragma once

#include "tensor/tree_kernels.h"
#include "tensor/tree_sum.h"

namespace strata::tensor {

/// reduce_halves_in_tree_order with the kernels of one instruction set.
void reduce_halves_in_tree_order_with(const TreeKernels& kernels, HalfFormat format, TreeOp op,
                                      const HalfSource* sources, int n, int64_t size,
                                      const HalfResult& result);

}  // namespace strata::tensor
