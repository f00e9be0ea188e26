#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/optional_tensor.h"

/// Operators of replica functions whose results have memory already, as the results of a replay have. Each
/// has the bits of its operator, or returns false and has written nothing: the operator takes another
/// kernel then, or the results lie otherwise than it would lay them. Results overlap no argument, but
/// where it says so. Cost: no memory but scratch, which the operators take, too. Threads: any.
namespace strata::kernels {

bool mm_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result);

bool addmm_into(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& result);

bool relu_into(const at::Tensor& x, const at::Tensor& result);

/// @param result  May be `gradient`.
bool threshold_backward_into(const at::Tensor& gradient, const at::Tensor& value,
                             const at::Scalar& threshold, const at::Tensor& result);

/// strata::addmm_backward. @param of_bias  Undefined, as `of_a` and `of_b`: not wanted.
bool addmm_backward_into(const at::Tensor& gradient, const OptionalTensor& a,
                         const OptionalTensor& b, bool b_by_columns, const at::Tensor& of_bias,
                         const at::Tensor& of_a, const at::Tensor& of_b);

}  // namespace strata::kernels
