#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "optim/step/step.h"

/// Gradients that have been reduced, as operators on a replica's device take them.
namespace strata::optimizers {

/// `replica`'s gradient of `parameter`, where that is, dense; without its factor.
at::Tensor unscaled_gradient_of(const EntryGradient& gradient, const at::Tensor& parameter,
                                int replica);
/// With it.
at::Tensor gradient_of(const EntryGradient& gradient, const at::Tensor& parameter, int replica);

/// As UpdatePass. @param parameters  The first replica's, by entry.
std::vector<double> squared_norms_of(const Step& step, const std::vector<at::Tensor>& parameters);
at::Tensor squared_norms_on_gpu_of(const Step& step, const std::vector<at::Tensor>& parameters);

}  // namespace strata::optimizers
