#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <optional>

namespace strata::kernels {

/// bias + a b of bfloat16 tensors with a node of the graph of our own, at autograd's key; or nothing
/// where the operands are others. The gradients of what was cast from a float variable are floats,
/// as they are summed: they are not rounded to 16 bits on their way to it.
std::optional<at::Tensor> half_dense_layer(c10::DispatchKeySet keys, const at::Tensor& bias,
                                           const at::Tensor& a, const at::Tensor& b);

}  // namespace strata::kernels
