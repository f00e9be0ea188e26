#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace strata::kernels {

struct BatchNormResult {
  at::Tensor y;
  at::Tensor mean;
  at::Tensor variance;  ///< Biased.
};

/// Batch normalization by the statistics of `x`, with what often follows it, in one pass forward
/// and one backward: relu(x * scale + shift + beside). Differentiable, twice too.
/// @param x       `[n, channels, ...]`, contiguous.
/// @param beside  Of x's shape, added before relu; undefined: nothing is.
/// @return Nothing where these kernels do not apply: other than float on the CPU, other strides,
///         empty, weight or bias undefined.
/// Bits depend neither on the number of threads nor on the processor.
std::optional<BatchNormResult> batch_norm_of_planes(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias,
                                                    const at::Tensor& beside, double epsilon,
                                                    bool relu);

}  // namespace strata::kernels
