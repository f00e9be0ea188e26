#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <array>
#include <optional>
#include <tuple>

/// libtorch's large products and convolutions on a replica's threads. How MKL and oneDNN divide
/// sums among threads decides bits in the last place; so each call is made on one thread, and what
/// is large is divided into calls by its shape alone. Where a function gives nothing, the operator
/// is small, or not one for it, and one call does.
namespace strata::kernels {

/// a x b, both matrices.
std::optional<at::Tensor> mm_in_parts(const at::Tensor& a, const at::Tensor& b);

/// beta x bias + alpha x a x b.
std::optional<at::Tensor> addmm_in_parts(const at::Tensor& bias, const at::Tensor& a,
                                         const at::Tensor& b, const at::Scalar& beta,
                                         const at::Scalar& alpha);

/// For each i a[i] x b[i].
std::optional<at::Tensor> bmm_in_parts(const at::Tensor& a, const at::Tensor& b);

/// The arguments of at::convolution but its tensors.
struct ConvolutionArguments {
  c10::SymIntArrayRef stride;
  c10::SymIntArrayRef padding;
  c10::SymIntArrayRef dilation;
  bool transposed;
  c10::SymIntArrayRef output_padding;
  const c10::SymInt& groups;
};

/// @param keys  Of the kernel below.
std::optional<at::Tensor> convolution_in_parts(c10::DispatchKeySet keys, const at::Tensor& input,
                                               const at::Tensor& weight,
                                               const std::optional<at::Tensor>& bias,
                                               const ConvolutionArguments& arguments);

/// The gradients of weights are added in the order of the parts.
std::optional<std::tuple<at::Tensor, at::Tensor, at::Tensor>> convolution_backward_in_parts(
    c10::DispatchKeySet keys, const at::Tensor& grad_output, const at::Tensor& input,
    const at::Tensor& weight, at::OptionalSymIntArrayRef bias_sizes,
    const ConvolutionArguments& arguments, std::array<bool, 3> output_mask);

}  // namespace strata::kernels
