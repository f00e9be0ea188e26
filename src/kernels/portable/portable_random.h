#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace strata::kernels::portable {

/// Fill a contiguous float or double tensor on the CPU, with the same bits on all processors.
/// @param generator  Of libtorch's for CPUs; none: the global one.
void fill_uniform(at::Tensor& out, double low, double high,
                  const std::optional<at::Generator>& generator);
/// By Marsaglia's polar method; mean 0 and deviation 1 without a limit.
/// @param limit  Values farther than this from 0 are drawn again.
void fill_normal(at::Tensor& out, double limit, const std::optional<at::Generator>& generator);

}  // namespace strata::kernels::portable
