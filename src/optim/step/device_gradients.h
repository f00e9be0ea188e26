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

/// Updates `replica`'s copy of a variable, or the rows of it that have a gradient.
void update_variable(const tensor::UpdateRule& rule, const Step& step, size_t entry, int replica,
                     at::Tensor& parameter, std::vector<at::Tensor>& slots,
                     const tensor::UpdateModifiers& modifiers);

/// As UpdatePass. @param parameters  The first replica's, by entry.
std::vector<double> squared_norms_of(const Step& step, const std::vector<at::Tensor>& parameters);
at::Tensor squared_norms_on_gpu_of(const Step& step, const std::vector<at::Tensor>& parameters);

}  // namespace strata::optimizers
