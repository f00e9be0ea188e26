#pragma once

#include <ATen/core/Tensor.h>

#include "strata/runtime/variable.h"

namespace strata::metrics {

/// A scalar in float64, 0 at first, to which every replica adds its own; reading adds these up.
Variable make_sum(const std::string& name, at::IntArrayRef shape = {});

/// By a replica an addition to its own copy. Outside `run` too, where the sum over replicas may
/// only be assigned.
void add_to_sum(Variable& variable, const at::Tensor& value);

/// A sum made outside every scope moves, with its value, to the strategy of the present scope.
/// @throws Error  kFailedPrecondition: it belongs to another strategy.
void bring_to_scope(Variable& sum);

/// total += the weighted sum of `values`, count += the sum of the weights, where an example of
/// `[batch, ...]` is the mean over its other axes. Source: keras.metrics.Mean.update_state.
///
/// @param values  Any shape, any dtype. @param weight  Undefined, a scalar (then everything is one
///                example), or one for each example or value.
/// Cost: on the CPU one operator, no allocation for floats.
void add_to_mean(Variable& total, Variable& count, const at::Tensor& values,
                 const at::Tensor& weight);

/// total += sum(values * weight). Source: keras.metrics.Sum.update_state.
void add_weighted(Variable& total, const at::Tensor& values, const at::Tensor& weight);

}  // namespace strata::metrics
