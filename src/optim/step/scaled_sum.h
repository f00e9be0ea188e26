#pragma once

#include <ATen/core/Tensor.h>

namespace strata::losses {

/// Whether scaled_sum takes it: on the CPU, float or double, and no larger than a batch.
bool has_scaled_sum(const at::Tensor& values);

/// sum(values) / divisor, added in double, as one node of the graph.
at::Tensor scaled_sum(const at::Tensor& values, double divisor);

}  // namespace strata::losses
