// Operators with the same bits on all processors, as compositions of those that have them.
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/log.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "kernels/portable/portable_bits.h"
#include "kernels/portable/register_portable.h"

namespace strata::kernels::portable {
namespace {

using at::Scalar;
using at::Tensor;

/// a + alpha b and a - alpha b. With another factor than 1 and -1 libtorch's kernel is a fused
/// multiply-add where the processor has one.
template <typename Op, typename First, typename... Out>
decltype(auto) with_factor(c10::DispatchKeySet keys, First& a, const Tensor& b, const Scalar& alpha,
                           Out&... out) {
  if (alpha.equal(1) || alpha.equal(-1)) {
    return Op::redispatch(keys & kBelowPortableKey, a, b, alpha, out...);
  }
  return Op::call(a, b * alpha, 1, out...);
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return x + a * b * value;
}
Tensor& addcmul_(Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return x.add_(a * b * value);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return x + a / b * value;
}
Tensor& addcdiv_(Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return x.add_(a / b * value);
}

/// Powers that are products and roots.
Tensor pow(const Tensor& x, const Scalar& exponent) {
  if (exponent.isComplex()) refuse_operator("aten::pow.Tensor_Scalar");
  const double p = exponent.toDouble();
  if (p == 1) return x.clone();
  if (p == 2) return x * x;
  if (p == 3) return x * x * x;
  if (p == 0.5) return x.sqrt();
  if (p == -0.5) return x.rsqrt();
  if (p == -1) return x.reciprocal();
  if (p == -2) return (x * x).reciprocal();
  refuse_operator(
      "aten::pow.Tensor_Scalar with another exponent than 1, 2, 3, 0.5, and -1, -2, -0.5");
}

Tensor tanh_backward(const Tensor& gradient, const Tensor& y) { return gradient * (1 - y * y); }
Tensor sigmoid_backward(const Tensor& gradient, const Tensor& y) { return gradient * (y - y * y); }

Tensor silu(const Tensor& x) { return x * at::sigmoid(x); }
Tensor& silu_(Tensor& x) { return x.mul_(at::sigmoid(x)); }
Tensor silu_backward(const Tensor& gradient, const Tensor& x) {
  const Tensor s = at::sigmoid(x);
  return gradient * (s * (1 + x * (1 - s)));
}

Tensor softplus(const Tensor& x, const Scalar& beta, const Scalar& threshold) {
  // ln(1 + e^z) = max(z, 0) + ln(1 + e^-|z|).
  const Tensor z = x * beta;
  const Tensor soft = (z.clamp_min(0) + at::log(1 + at::exp(-z.abs()))) / beta;
  return at::where(z > threshold, x, soft);
}
Tensor softplus_backward(const Tensor& gradient, const Tensor& x, const Scalar& beta,
                         const Scalar& threshold) {
  const Tensor z = x * beta;
  return at::where(z > threshold, gradient, gradient * at::sigmoid(z));
}

Tensor elu(const Tensor& x, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  const Tensor below = (at::exp(x * input_scale) - 1) * alpha * scale;
  return at::where(x > 0, x * scale, below);
}
Tensor& elu_(Tensor& x, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  return x.copy_(elu(x, alpha, scale, input_scale));
}
Tensor elu_backward(const Tensor& gradient, const Scalar& alpha, const Scalar& scale,
                    const Scalar& input_scale, bool is_result, const Tensor& x_or_y) {
  const Tensor below = is_result ? (x_or_y + alpha.toDouble() * scale.toDouble()) * input_scale
                                 : at::exp(x_or_y * input_scale) * input_scale * alpha * scale;
  return gradient * at::where(x_or_y > 0, at::scalar_tensor(scale, x_or_y.options()), below);
}

Tensor softmax(const Tensor& x, int64_t dim, bool) {
  const Tensor e = at::exp(x - x.amax(dim, /*keepdim=*/true));
  return e / e.sum(dim, /*keepdim=*/true);
}
Tensor softmax_backward(const Tensor& gradient, const Tensor& y, int64_t dim, at::ScalarType) {
  return y * (gradient - (gradient * y).sum(dim, /*keepdim=*/true));
}
Tensor log_softmax(const Tensor& x, int64_t dim, bool) {
  const Tensor centred = x - x.amax(dim, /*keepdim=*/true);
  return centred - at::log(at::exp(centred).sum(dim, /*keepdim=*/true));
}
Tensor log_softmax_backward(const Tensor& gradient, const Tensor& y, int64_t dim, at::ScalarType) {
  return gradient - at::exp(y) * gradient.sum(dim, /*keepdim=*/true);
}

Tensor variance(const Tensor& x, at::OptionalIntArrayRef dims,
                const std::optional<Scalar>& correction, bool keepdim) {
  const Tensor mean = x.mean(dims, /*keepdim=*/true);
  const Tensor centred = x - mean;
  const Tensor total = (centred * centred).sum(dims, keepdim);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(mean.numel());
  return total / std::max(0.0, count - (correction ? correction->toDouble() : 1.0));
}
Tensor deviation(const Tensor& x, at::OptionalIntArrayRef dims,
                 const std::optional<Scalar>& correction, bool keepdim) {
  return variance(x, dims, correction, keepdim).sqrt();
}

Tensor norm(const Tensor& x, const Scalar& order, at::OptionalIntArrayRef dims, bool keepdim,
            std::optional<at::ScalarType> type) {
  const Tensor y = type ? x.to(*type) : x;
  const double p = order.toDouble();
  if (p == 2) return (y * y).sum(dims, keepdim).sqrt();
  if (p == 1) return y.abs().sum(dims, keepdim);
  if (std::isinf(p) && p > 0) {
    return dims && !dims->empty() ? y.abs().amax(*dims, keepdim) : y.abs().amax();
  }
  refuse_operator("aten::linalg_vector_norm of another order than 1, 2 and infinity");
}

Tensor norm_of_dims(const Tensor& x, const std::optional<Scalar>& order, at::IntArrayRef dims,
                    bool keepdim) {
  return norm(x, order.value_or(2), dims, keepdim, std::nullopt);
}
Tensor norm_of_all(const Tensor& x, const Scalar& order) {
  return norm(x, order, at::OptionalIntArrayRef(), false, std::nullopt);
}

Tensor gelu(const Tensor& x, std::string_view approximate) {
  // Of a dense tensor there is a kernel at kReplicaKey.
  if (!x.is_non_overlapping_and_dense()) return at::gelu(x.contiguous(), approximate);
  refuse_operator("aten::gelu");
}
Tensor gelu_backward(const Tensor& gradient, const Tensor& x, std::string_view approximate) {
  if (x.is_contiguous() && gradient.is_contiguous()) refuse_operator("aten::gelu_backward");
  return at::gelu_backward(gradient.contiguous(), x.contiguous(), approximate);
}

Tensor reduced(const Tensor& losses, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return losses.mean();
  return reduction == at::Reduction::Sum ? losses.sum() : losses;
}
/// The gradient of each loss.
Tensor spread(const Tensor& gradient, const Tensor& losses, int64_t reduction) {
  if (reduction != at::Reduction::Mean) return gradient;
  return gradient / static_cast<double>(losses.numel());
}
Tensor mse_loss(const Tensor& x, const Tensor& target, int64_t reduction) {
  const Tensor d = x - target;
  return reduced(d * d, reduction);
}
Tensor mse_loss_backward(const Tensor& gradient, const Tensor& x, const Tensor& target,
                         int64_t reduction) {
  return spread(gradient, x, reduction) * ((x - target) * 2);
}

/// Of [n, channels, ...]: the dimensions that a channel's statistics are over, and how statistics
/// are laid out beside x.
struct Channels {
  explicit Channels(const Tensor& x)
      : beside(static_cast<size_t>(x.dim()), 1),
        count(static_cast<double>(x.numel()) / static_cast<double>(x.size(1))) {
    for (int64_t dim = 0; dim < x.dim(); ++dim) {
      if (dim != 1) reduced.push_back(dim);
    }
    beside[1] = x.size(1);
  }
  at::DimVector reduced;
  at::DimVector beside;
  double count;  ///< Elements of a channel.
};

std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& x, const std::optional<Tensor>& weight,
                                              const std::optional<Tensor>& bias,
                                              const std::optional<Tensor>& running_mean,
                                              const std::optional<Tensor>& running_variance,
                                              bool training, double momentum, double epsilon) {
  const auto given = [](const std::optional<Tensor>& each) { return each && each->defined(); };
  const Channels channels(x);
  Tensor mean = training ? x.mean(channels.reduced) : *running_mean;
  const Tensor centred = x - mean.view(channels.beside);
  const Tensor variance = training ? (centred * centred).mean(channels.reduced) : *running_variance;
  Tensor inverse = (variance + epsilon).rsqrt();
  Tensor y = centred * inverse.view(channels.beside);
  if (given(weight)) y = y * weight->view(channels.beside);
  if (given(bias)) y = y + bias->view(channels.beside);
  if (training && given(running_mean)) {
    running_mean->mul_(1 - momentum).add_(mean * momentum);
    running_variance->mul_(1 - momentum)
        .add_(variance * (momentum * channels.count / std::max(1.0, channels.count - 1)));
  }
  return {std::move(y), std::move(mean), std::move(inverse)};
}
std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(
    const Tensor& gradient, const Tensor& x, const std::optional<Tensor>& weight,
    const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_variance,
    const std::optional<Tensor>& save_mean, const std::optional<Tensor>& save_inverse,
    bool training, double epsilon, std::array<bool, 3>) {
  const Channels channels(x);
  const Tensor mean = training ? *save_mean : *running_mean;
  const Tensor inverse = training ? *save_inverse : (*running_variance + epsilon).rsqrt();
  const Tensor normal = (x - mean.view(channels.beside)) * inverse.view(channels.beside);
  const Tensor dbias = gradient.sum(channels.reduced);
  const Tensor dweight = (gradient * normal).sum(channels.reduced);
  Tensor scale = inverse.view(channels.beside);
  if (weight && weight->defined()) scale = scale * weight->view(channels.beside);
  if (!training) return {gradient * scale, dweight, dbias};
  const Tensor dx = (gradient - (dbias / channels.count).view(channels.beside) -
                     normal * (dweight / channels.count).view(channels.beside)) *
                    scale;
  return {dx, dweight, dbias};
}

}  // namespace

void register_compositions(torch::Library& library) {
  library.impl("add.Tensor", TORCH_FN((with_factor<at::_ops::add_Tensor, const Tensor>)));
  library.impl("add_.Tensor", TORCH_FN((with_factor<at::_ops::add__Tensor, Tensor>)));
  library.impl("add.out", TORCH_FN((with_factor<at::_ops::add_out, const Tensor, Tensor>)));
  library.impl("sub.Tensor", TORCH_FN((with_factor<at::_ops::sub_Tensor, const Tensor>)));
  library.impl("sub_.Tensor", TORCH_FN((with_factor<at::_ops::sub__Tensor, Tensor>)));
  library.impl("sub.out", TORCH_FN((with_factor<at::_ops::sub_out, const Tensor, Tensor>)));
  library.impl("addcmul", TORCH_FN(addcmul));
  library.impl("addcmul_", TORCH_FN(addcmul_));
  library.impl("addcdiv", TORCH_FN(addcdiv));
  library.impl("addcdiv_", TORCH_FN(addcdiv_));
  library.impl("pow.Tensor_Scalar", TORCH_FN(pow));
  library.impl("tanh_backward", TORCH_FN(tanh_backward));
  library.impl("sigmoid_backward", TORCH_FN(sigmoid_backward));
  library.impl("silu", TORCH_FN(silu));
  library.impl("silu_", TORCH_FN(silu_));
  library.impl("silu_backward", TORCH_FN(silu_backward));
  library.impl("softplus", TORCH_FN(softplus));
  library.impl("softplus_backward", TORCH_FN(softplus_backward));
  library.impl("elu", TORCH_FN(elu));
  library.impl("elu_", TORCH_FN(elu_));
  library.impl("elu_backward", TORCH_FN(elu_backward));
  library.impl("_softmax", TORCH_FN(softmax));
  library.impl("_softmax_backward_data", TORCH_FN(softmax_backward));
  library.impl("_log_softmax", TORCH_FN(log_softmax));
  library.impl("_log_softmax_backward_data", TORCH_FN(log_softmax_backward));
  library.impl("var.correction", TORCH_FN(variance));
  library.impl("std.correction", TORCH_FN(deviation));
  library.impl("linalg_vector_norm", TORCH_FN(norm));
  library.impl("norm.ScalarOpt_dim", TORCH_FN(norm_of_dims));
  library.impl("norm.Scalar", TORCH_FN(norm_of_all));
  library.impl("gelu", TORCH_FN(gelu));
  library.impl("gelu_backward", TORCH_FN(gelu_backward));
  library.impl("mse_loss", TORCH_FN(mse_loss));
  library.impl("mse_loss_backward", TORCH_FN(mse_loss_backward));
  library.impl("native_batch_norm", TORCH_FN(batch_norm));
  library.impl("native_batch_norm_backward", TORCH_FN(batch_norm_backward));
}

}  // namespace strata::kernels::portable
