// The kernels behind random_streams.h: every operator with a `Generator?` argument and a kernel of
// its own per device. (Composite ones, such as rand or dropout, arrive here through these.)
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_dropout_ops.h>
#include <ATen/ops/_sample_dirichlet_ops.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_ops.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_ops.h>
#include <ATen/ops/_standard_gamma_ops.h>
#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/binomial_ops.h>
#include <ATen/ops/cauchy_ops.h>
#include <ATen/ops/exponential_ops.h>
#include <ATen/ops/geometric_ops.h>
#include <ATen/ops/log_normal_ops.h>
#include <ATen/ops/multinomial_ops.h>
#include <ATen/ops/native_dropout_ops.h>
#include <ATen/ops/normal_ops.h>
#include <ATen/ops/poisson_ops.h>
#include <ATen/ops/random_ops.h>
#include <ATen/ops/randperm_ops.h>
#include <ATen/ops/rrelu_with_noise_ops.h>
#include <ATen/ops/uniform_ops.h>
#include <torch/library.h>

#include <string>
#include <type_traits>
#include <utility>

#include "kernels/dispatch_key.h"
#include "tensor/mask_kernels.h"
#include "tensor/random_ops.h"
#include "tensor/replica_operators.h"

namespace strata::tensor {

const MaskKernels& mask_kernels(CpuIsa isa) { return STRATA_KERNELS_FOR(isa, mask_kernels); }

namespace detail {

namespace {

/// The device of the first tensor among the arguments: each of these operators has one.
template <typename First, typename... Rest>
c10::Device first_device(const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<First, at::Tensor>) {
    return first.device();
  } else {
    return first_device(rest...);
  }
}

template <typename Argument>
decltype(auto) with_stream(Argument& argument, c10::Device device) {
  if constexpr (std::is_same_v<std::remove_const_t<Argument>, std::optional<at::Generator>>) {
    return generator_or_stream(argument, device);
  } else {
    return (argument);
  }
}

/// Operators that take a generator.
template <typename Op, typename Schema = typename Op::schema>
struct WithGenerator;

template <typename Op, typename Result, typename... Arguments>
struct WithGenerator<Op, Result(Arguments...)> {
  static Result call(c10::DispatchKeySet keys, Arguments... arguments) {
    const c10::Device device = first_device(arguments...);
    return Op::redispatch(keys & kernels::kBelowReplicaKey, with_stream(arguments, device)...);
  }
};

/// Operators that draw from the device's default generator whatever happens.
template <typename Op, typename Schema = typename Op::schema>
struct WithScopedGenerator;

template <typename Op, typename Result, typename... Arguments>
struct WithScopedGenerator<Op, Result(Arguments...)> {
  static Result call(c10::DispatchKeySet keys, Arguments... arguments) {
    const ScopedDefaultGenerator loan(first_device(arguments...));
    return Op::redispatch(keys & kernels::kBelowReplicaKey, arguments...);
  }
};

/// Dropout's operator. libtorch draws its elements one by one, except through MKL on Intel
/// processors: some 100 us for 64 x 256, as long as a small model's whole forward. A stream's masks
/// come from a counter-based generator instead, vectorised.
at::Tensor& fill_mask(c10::DispatchKeySet keys, at::Tensor& self, double p,
                      std::optional<at::Generator> given) {
  const auto type = self.scalar_type();
  const bool plain =
      self.is_cpu() && self.layout() == at::kStrided && self.is_non_overlapping_and_dense() &&
      (type == at::kFloat || type == at::kDouble || type == at::kBool || type == at::kByte);
  if (plain && !(given && given->defined()) && p > 0 && p < 1 &&
      self.numel() < (int64_t{1} << 32)) {
    if (const auto key = next_mask_key()) {
      static const MaskKernels& kernels = mask_kernels(best_cpu_isa());
      const auto threshold = static_cast<uint32_t>(p * 0x1p32);
      void* data = self.mutable_data_ptr();
      if (type == at::kFloat) {
        kernels.f32(*key, threshold, self.numel(), static_cast<float*>(data));
      } else if (type == at::kDouble) {
        kernels.f64(*key, threshold, self.numel(), static_cast<double*>(data));
      } else {
        kernels.u8(*key, threshold, self.numel(), static_cast<uint8_t*>(data));
      }
      return self;
    }
  }
  return WithGenerator<at::_ops::bernoulli__float>::call(keys, self, p, std::move(given));
}

template <typename Op>
std::string full_name() {
  std::string name = Op::name;
  if (*Op::overload_name != '\0') name.append(".").append(Op::overload_name);
  return name;
}

template <template <typename...> typename Kernel, typename... Ops>
void register_kernels(torch::Library& library) {
  (library.impl(full_name<Ops>().c_str(), TORCH_FN((Kernel<Ops>::call))), ...);
}

// Made here, since at::_ops, used below, has a `std` of its own.
constexpr auto kFillMask = TORCH_FN(fill_mask);

}  // namespace

void register_random_ops(torch::Library& library) {
  using namespace at::_ops;  // NOLINT
  register_kernels<WithGenerator, bernoulli_out, bernoulli__Tensor, uniform_, normal_, random_,
                   random__from, random__to, exponential_, cauchy_, log_normal_, geometric_,
                   randperm_generator_out, multinomial, multinomial_out, poisson, binomial,
                   _standard_gamma, _sample_dirichlet, normal_Tensor_float, normal_Tensor_float_out,
                   normal_float_Tensor, normal_float_Tensor_out, normal_Tensor_Tensor,
                   normal_Tensor_Tensor_out, rrelu_with_noise, rrelu_with_noise_,
                   rrelu_with_noise_out, _fused_dropout>(library);
  register_kernels<WithScopedGenerator, native_dropout, _scaled_dot_product_flash_attention,
                   _scaled_dot_product_efficient_attention, _scaled_dot_product_cudnn_attention>(
      library);

  library.impl(full_name<bernoulli__float>().c_str(), kFillMask);
}

}  // namespace detail
}  // namespace strata::tensor
