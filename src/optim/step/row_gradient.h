#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "optim/step/step.h"

namespace strata::optimizers {

/// Joins the sparse gradients of one variable: rows of all replicas in replica order, then equal
/// rows added in that order, so that the bits depend on the replicas' values alone.
/// @param gradients  Sparse COO with one sparse dimension, or undefined.
/// @throws Error  kInvalidArgument: more than one sparse dimension.
RowGradient join_rows(const std::vector<at::Tensor>& gradients, const std::string& variable);

}  // namespace strata::optimizers
