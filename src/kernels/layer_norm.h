#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace strata::kernels {

struct LayerNormOfSum {
  at::Tensor y;
  at::Tensor sum;
};

// In one pass forward and one backward. Differentiable, twice too. Nothing is given where these
// kernels do not apply: other than float (or bfloat16) on the CPU, other strides, empty. Bits depend neither on
// the number of threads nor on the processor.

/// Layer normalization over the last dimensions of x + beside, and that sum.
/// @param x, beside     Of one shape and dtype, contiguous. Of bfloat16 the sum and the result are
///                      rounded; what is between them is float.
/// @param weight, bias  Of the last dimensions of x, float, contiguous; undefined: 1 and 0.
std::optional<LayerNormOfSum> layer_norm_of_sum(const at::Tensor& x, const at::Tensor& beside,
                                                const at::Tensor& weight, const at::Tensor& bias,
                                                at::IntArrayRef normalized_shape, double epsilon);

/// x / sqrt(mean of x^2 + epsilon) * weight over the last dimensions, which are weight's.
std::optional<at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

}  // namespace strata::kernels
