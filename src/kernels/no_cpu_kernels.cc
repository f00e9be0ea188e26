// Built in place of the kernels with STRATA_CPU_KERNELS=OFF: replica functions run libtorch's
// operators, large ones in parts, so that their bits do not depend on the number of threads.
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/mm_ops.h>
#include <torch/library.h>

#include "kernels/attention_operator.h"
#include "kernels/batch_norm.h"
#include "kernels/dispatch_key.h"
#include "kernels/fixed_parts.h"
#include "kernels/into.h"
#include "kernels/layer_norm.h"
#include "kernels/portable/portable_bits.h"
#include "kernels/projections.h"
#include "kernels/recurrent.h"
#include "kernels/registration.h"
#include "strata/kernels/cpu_kernels.h"

namespace strata::kernels {

bool use_portable_kernels() { return false; }

namespace {

at::Tensor mm(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b) {
  if (auto c = mm_in_parts(a, b)) return *std::move(c);
  return at::_ops::mm::redispatch(keys & kBelowReplicaKey, a, b);
}

at::Tensor addmm(c10::DispatchKeySet keys, const at::Tensor& bias, const at::Tensor& a,
                 const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  if (auto c = addmm_in_parts(bias, a, b, beta, alpha)) return *std::move(c);
  return at::_ops::addmm::redispatch(keys & kBelowReplicaKey, bias, a, b, beta, alpha);
}

at::Tensor bmm(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b) {
  if (auto c = bmm_in_parts(a, b)) return *std::move(c);
  return at::_ops::bmm::redispatch(keys & kBelowReplicaKey, a, b);
}

at::Tensor convolution(c10::DispatchKeySet keys, const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, c10::SymIntArrayRef stride,
                       c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                       c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  if (auto parts =
          convolution_in_parts(keys & kBelowReplicaKey, input, weight, bias,
                               {stride, padding, dilation, transposed, output_padding, groups})) {
    return *std::move(parts);
  }
  return at::_ops::convolution::redispatch(keys & kBelowReplicaKey, input, weight, bias, stride,
                                           padding, dilation, transposed, output_padding,
                                           std::move(groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    c10::DispatchKeySet keys, const at::Tensor& grad_output, const at::Tensor& input,
    const at::Tensor& weight, at::OptionalSymIntArrayRef bias_sizes, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
    c10::SymIntArrayRef output_padding, c10::SymInt groups, std::array<bool, 3> output_mask) {
  if (auto parts = convolution_backward_in_parts(
          keys & kBelowReplicaKey, grad_output, input, weight, bias_sizes,
          {stride, padding, dilation, transposed, output_padding, groups}, output_mask)) {
    return *std::move(parts);
  }
  return at::_ops::convolution_backward::redispatch(
      keys & kBelowReplicaKey, grad_output, input, weight, bias_sizes, stride, padding, dilation,
      transposed, output_padding, std::move(groups), output_mask);
}

}  // namespace

void register_cpu_kernels(torch::Library& library) {
  library.impl("mm", TORCH_FN(mm));
  library.impl("addmm", TORCH_FN(addmm));
  library.impl("bmm", TORCH_FN(bmm));
  library.impl("convolution", TORCH_FN(convolution));
  library.impl("convolution_backward", TORCH_FN(convolution_backward));
}

void register_cpu_nodes(torch::Library&) {}

void use_cpu_kernels() {}

std::string kernel_table_name() { return "libtorch"; }

std::string describe_cpu_kernels() {
  return "libtorch's, since this strata was built with STRATA_CPU_KERNELS=OFF";
}

bool mm_into(const at::Tensor&, const at::Tensor&, const at::Tensor&) { return false; }
bool addmm_into(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar&,
                const at::Scalar&, const at::Tensor&) {
  return false;
}
bool relu_into(const at::Tensor&, const at::Tensor&) { return false; }
bool threshold_backward_into(const at::Tensor&, const at::Tensor&, const at::Scalar&,
                             const at::Tensor&) {
  return false;
}
bool addmm_backward_into(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, bool,
                         const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  return false;
}

std::optional<BatchNormResult> batch_norm_of_planes(const at::Tensor&, const at::Tensor&,
                                                    const at::Tensor&, const at::Tensor&, double,
                                                    bool) {
  return std::nullopt;
}

std::optional<LayerNormOfSum> layer_norm_of_sum(const at::Tensor&, const at::Tensor&,
                                                const at::Tensor&, const at::Tensor&,
                                                at::IntArrayRef, double) {
  return std::nullopt;
}

std::optional<at::Tensor> rms_norm(const at::Tensor&, const at::Tensor&, double) {
  return std::nullopt;
}

std::optional<std::vector<at::Tensor>> projections(const at::Tensor&,
                                                   const std::vector<at::Tensor>&,
                                                   const std::vector<at::Tensor>&) {
  return std::nullopt;
}

bool attention_kernels_apply(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const AttentionMask&) {
  return false;
}

std::optional<LstmResult> lstm(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const SequenceSteps&) {
  return std::nullopt;
}

std::optional<GruResult> gru(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const SequenceSteps&, bool) {
  return std::nullopt;
}

}  // namespace strata::kernels
