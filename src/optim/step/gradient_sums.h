#pragma once

#include <ATen/core/Tensor.h>

#include "tensor/sum_of_squares.h"

namespace strata::optimizers {

/// What a replica without a gradient adds: x + -0 is x, for x = -0, too.
inline constexpr double kSumIdentity = -0.0;

/// Blocks of a variable whose squares are added apart: see tensor/sum_of_squares.h.
constexpr int64_t num_norm_blocks(int64_t elements) {
  return (elements + tensor::kNormBlock - 1) / tensor::kNormBlock;
}

/// Adds the gradients of each variable in tree order into `sums`, which lie as they do, block by
/// block: those blocks of all variables whose number is `first` plus a multiple of `step`. Block
/// b's sum of squares becomes `squares[b]`.
/// @param gradients  Of one variable after the other; without elements: absent.
void add_gradients_(at::TensorList sums, const at::Tensor& squares, at::TensorList gradients,
                    at::IntArrayRef num_gradients, int64_t first, int64_t step);

/// Adds the gradients of each variable in tree order into `sums`, times both of its `factors`.
/// @param cached  Whether a server reads `sums` on this core. Else it has read what is there on
///     another, which an ordinary store would ask for each line: then the stores are non-temporal.
void add_scaled_gradients_(at::TensorList sums, at::TensorList gradients,
                           at::IntArrayRef num_gradients, at::ArrayRef<double> factors,
                           bool cached);

/// The sums of each variable's blocks in `squares`, which add_gradients_ wrote for variables of
/// these sizes: `[sizes.size()]`, float64.
at::Tensor sums_of_blocks(const at::Tensor& squares, at::IntArrayRef sizes);

/// The sum of all squares, float64, in one order.
at::Tensor sum_of_squares(const at::Tensor& values);

}  // namespace strata::optimizers
