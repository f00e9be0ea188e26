#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace strata::optimizers {

/// Called during backward when the gradient of an input is complete: its index, and the
/// gradient, which is read only and may be laid out in any way.
using OnGradient = std::function<void(size_t, const at::Tensor&)>;

/// The gradients of `loss` (a scalar) for `inputs`, undefined where it does not depend on one. As
/// libtorch's engine computes them, to the bit, and with its effects on the graph; but by the
/// calling thread alone, without the engine's state, locks and queues (over a microsecond a node),
/// and without its one thread a GPU, which logical GPUs of a card would share.
///
/// @param on_gradient  May be empty.
/// @return Nothing, and nothing done, for graphs that need the engine: with other leaves than
///         `inputs`, hooks, several GPUs or streams, nodes that a program defines, in anomaly mode.
std::optional<std::vector<at::Tensor>> backward_here(const at::Tensor& loss,
                                                     const std::vector<at::Tensor>& inputs,
                                                     const OnGradient& on_gradient = {});

}  // namespace strata::optimizers
