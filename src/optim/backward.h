#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace strata::optimizers {

/// The gradients of `loss` (a scalar) for `inputs`, undefined where it does not depend on one. As
/// libtorch's engine computes them, to the bit, and with its effects on the graph; but by the
/// calling thread alone, without the engine's state, locks and queues (over a microsecond a node).
///
/// @return Nothing, and nothing done, for graphs that need the engine: with other leaves than
///         `inputs`, hooks, several devices, nodes that a program defines, in anomaly mode.
std::optional<std::vector<at::Tensor>> backward_here(const at::Tensor& loss,
                                                     const std::vector<at::Tensor>& inputs);

}  // namespace strata::optimizers
