// Smooth activations of replica functions: libtorch's operators by polynomials of our own, which
// have the same bits on every processor. Of bfloat16 they are tables, which those polynomials fill.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "kernels/activation_kernels.h"
#include "kernels/bf16_element.h"
#include "kernels/bf16_tensor.h"
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
bool is_piece_of_bf16(const at::Tensor& x) {
  return runs_here(KernelClass::kActivation) && takes_bfloat16(x) &&
         x.is_non_overlapping_and_dense() && !x.is_neg();
}

KernelClass class_of(c10::string_view approximate) {
  return approximate == "tanh" ? KernelClass::kActivation : KernelClass::kGelu;
}

at::Tensor empty_like_piece(const at::Tensor& x) {
  return at::detail::empty_strided_cpu(x.sizes(), x.strides(), x.scalar_type());
}

at::Tensor activate(ActivationKernels::Forward* kernel, const at::Tensor& x) {
  at::Tensor result = empty_like_piece(x);
  const float* const from = x.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  parallel_for(0, x.numel(), kPartActivations,
               [&](int64_t begin, int64_t end) { kernel(from + begin, end - begin, to + begin); });
  return result;
}

// --- bfloat16

constexpr int64_t kBf16Values = 1 << 16;

/// Every number of bfloat16, in the order of their bits.
std::vector<float> all_of_bf16() {
  std::vector<float> all(kBf16Values);
  for (size_t i = 0; i < all.size(); ++i) all[i] = as_float(static_cast<uint16_t>(i));
  return all;
}

/// A function's values at all_of_bf16(). It takes 128 KiB, of which a layer's numbers use few.
class Bf16Values {
 public:
  explicit Bf16Values(ActivationKernels::Forward* function) : values_(kBf16Values) {
    std::vector<float> all = all_of_bf16();
    function(all.data(), kBf16Values, all.data());
    std::transform(all.begin(), all.end(), values_.begin(),
                   [](float value) { return rounded<uint16_t>(value); });
  }
  at::Tensor at(const at::Tensor& x) const {
    at::Tensor result = empty_like_piece(x);
    const uint16_t* const from = bf16_data(x);
    uint16_t* const to = mutable_bf16_data(result);
    parallel_for(0, x.numel(), kPartElements, [&](int64_t begin, int64_t end) {
      activation_kernels().look_up(values_.data(), from + begin, end - begin, to + begin);
    });
    return result;
  }

 private:
  std::vector<uint16_t> values_;
};

/// Its slopes there.
class Bf16Slopes {
 public:
  explicit Bf16Slopes(ActivationKernels::Backward* backward) : slopes_(kBf16Values, 1.0F) {
    backward(slopes_.data(), all_of_bf16().data(), kBf16Values, slopes_.data());
  }
  at::Tensor times(const at::Tensor& gradient, const at::Tensor& x) const {
    at::Tensor result = empty_like_piece(x);
    const uint16_t* const dy = bf16_data(gradient);
    const uint16_t* const from = bf16_data(x);
    uint16_t* const to = mutable_bf16_data(result);
    parallel_for(0, x.numel(), kPartElements, [&](int64_t begin, int64_t end) {
      activation_kernels().scale_by(slopes_.data(), dy + begin, from + begin, end - begin,
                                    to + begin);
    });
    return result;
  }

 private:
  std::vector<float> slopes_;
};

at::Tensor gelu_of_bf16(const at::Tensor& x, bool by_tanh) {
  if (by_tanh) {
    static const Bf16Values values(activation_kernels().gelu_tanh);
    return values.at(x);
  }
  static const Bf16Values values(activation_kernels().gelu);
  return values.at(x);
}

at::Tensor gelu_backward_of_bf16(const at::Tensor& gradient, const at::Tensor& x, bool by_tanh) {
  if (by_tanh) {
    static const Bf16Slopes slopes(activation_kernels().gelu_tanh_backward);
    return slopes.times(gradient, x);
  }
  static const Bf16Slopes slopes(activation_kernels().gelu_backward);
  return slopes.times(gradient, x);
}

// --- The operators

at::Tensor gelu(c10::DispatchKeySet keys, const at::Tensor& x, c10::string_view approximate) {
  if (is_piece_of_bf16(x)) return gelu_of_bf16(x, approximate == "tanh");
  if (!is_one_piece(x, class_of(approximate))) {
    return at::_ops::gelu::redispatch(keys & kBelowReplicaKey, x, approximate);
  }
  const ActivationKernels& kernels = activation_kernels();
  return activate(approximate == "tanh" ? kernels.gelu_tanh : kernels.gelu, x);
}

at::Tensor gelu_backward(c10::DispatchKeySet keys, const at::Tensor& gradient, const at::Tensor& x,
                         c10::string_view approximate) {
  if (is_piece_of_bf16(x) && is_piece_of_bf16(gradient) && x.sizes() == gradient.sizes() &&
      x.strides() == gradient.strides()) {
    return gelu_backward_of_bf16(gradient, x, approximate == "tanh");
  }
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
  if (is_piece_of_bf16(x)) {
    static const Bf16Values values(activation_kernels().sigmoid);
    return values.at(x);
  }
  if (!is_one_piece(x)) return at::_ops::sigmoid::redispatch(keys & kBelowReplicaKey, x);
  return activate(activation_kernels().sigmoid, x);
}

at::Tensor tanh(c10::DispatchKeySet keys, const at::Tensor& x) {
  if (is_piece_of_bf16(x)) {
    static const Bf16Values values(activation_kernels().tanh);
    return values.at(x);
  }
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
