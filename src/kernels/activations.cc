// Smooth activations of replica functions: libtorch's operators by polynomials of our own, which
// have the same bits on every processor.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <torch/library.h>

#include "kernels/activation_kernels.h"
#include "kernels/dispatch_key.h"
#include "kernels/kernel_threads.h"
#include "kernels/products.h"
#include "kernels/registration.h"

namespace strata::kernels {

const ActivationKernels& activation_kernels() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), activation_kernels);
}

namespace {

/// Elements of a part: an element takes longer than a relu's.
constexpr int64_t kPartActivations = kPartElements / 4;

/// Of any order of dimensions: the elements are one piece of memory.
bool is_one_piece(const at::Tensor& x, KernelClass of = KernelClass::kActivation) {
  return runs_here(of) && is_cpu_float(x) && x.is_non_overlapping_and_dense() && !x.is_neg();
}

KernelClass class_of(c10::string_view approximate) {
  return approximate == "tanh" ? KernelClass::kActivation : KernelClass::kGelu;
}

at::Tensor empty_like_piece(const at::Tensor& x) {
  if (x.is_contiguous()) return empty_float(x.sizes());
  return at::detail::empty_strided_cpu(x.sizes(), x.strides(), at::kFloat);
}

at::Tensor activate(ActivationKernels::Forward* kernel, const at::Tensor& x) {
  at::Tensor result = empty_like_piece(x);
  const float* const from = x.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  parallel_for(0, x.numel(), kPartActivations,
               [&](int64_t begin, int64_t end) { kernel(from + begin, end - begin, to + begin); });
  return result;
}

at::Tensor gelu(c10::DispatchKeySet keys, const at::Tensor& x, c10::string_view approximate) {
  if (!is_one_piece(x, class_of(approximate))) {
    return at::_ops::gelu::redispatch(keys & kBelowReplicaKey, x, approximate);
  }
  const ActivationKernels& kernels = activation_kernels();
  return activate(approximate == "tanh" ? kernels.gelu_tanh : kernels.gelu, x);
}

at::Tensor gelu_backward(c10::DispatchKeySet keys, const at::Tensor& gradient, const at::Tensor& x,
                         c10::string_view approximate) {
  const KernelClass of = class_of(approximate);
  if (!is_one_piece(x, of) || !is_one_piece(gradient, of) || x.sizes() != gradient.sizes() ||
      x.strides() != gradient.strides()) {
    return at::_ops::gelu_backward::redispatch(keys & kBelowReplicaKey, gradient, x, approximate);
  }
  const ActivationKernels& kernels = activation_kernels();
  ActivationKernels::Backward* const kernel =
      approximate == "tanh" ? kernels.gelu_tanh_backward : kernels.gelu_backward;
  at::Tensor result = empty_like_piece(x);
  const float* const dy = gradient.const_data_ptr<float>();
  const float* const from = x.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  parallel_for(0, x.numel(), kPartActivations, [&](int64_t begin, int64_t end) {
    kernel(dy + begin, from + begin, end - begin, to + begin);
  });
  return result;
}

at::Tensor sigmoid(c10::DispatchKeySet keys, const at::Tensor& x) {
  if (!is_one_piece(x)) return at::_ops::sigmoid::redispatch(keys & kBelowReplicaKey, x);
  return activate(activation_kernels().sigmoid, x);
}

at::Tensor tanh(c10::DispatchKeySet keys, const at::Tensor& x) {
  if (!is_one_piece(x)) return at::_ops::tanh::redispatch(keys & kBelowReplicaKey, x);
  return activate(activation_kernels().tanh, x);
}

}  // namespace

void register_activations(torch::Library& library) {
  library.impl("gelu", TORCH_FN(gelu));
  library.impl("gelu_backward", TORCH_FN(gelu_backward));
  library.impl("sigmoid", TORCH_FN(sigmoid));
  library.impl("tanh", TORCH_FN(tanh));
}

}  // namespace strata::kernels
