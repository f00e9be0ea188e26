#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace strata::kernels {

/// x w + b for several w and b: the query, key and value of self-attention in one operator, forward
/// and backward; the gradient of `x` is one sum. Differentiable, twice too.
/// @param x        `[rows, inputs]`, rows contiguous.
/// @param weights  `[inputs, outputs]` each.
/// @param biases   `[outputs]` each, or none.
/// @return `[rows, outputs]` each. Nothing where the kernels do not apply: other than float on the
///         CPU, empty, other strides, or libtorch's products chosen.
/// Bits do not depend on the number of threads.
std::optional<std::vector<at::Tensor>> projections(const at::Tensor& x,
                                                   const std::vector<at::Tensor>& weights,
                                                   const std::vector<at::Tensor>& biases);

}  // namespace strata::kernels
