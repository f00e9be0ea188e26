#include "strata/keras/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/hardshrink.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/softshrink.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/threshold.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "strata/core/error.h"

namespace strata::activations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// f(x) with its derivative written out: autograd's chain through the parts would subtract numbers
// that are nearly equal. The derivative is differentiable in turn.
template <typename Formula>
class WithDerivative : public torch::autograd::Function<WithDerivative<Formula>> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double parameter) {
    ctx->save_for_backward({x});
    ctx->saved_data["parameter"] = parameter;
    return Formula::value(x, parameter);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Tensor x = ctx->get_saved_variables()[0];
    const double parameter = ctx->saved_data["parameter"].toDouble();
    return {gradients[0] * Formula::derivative(x, parameter), Tensor()};
  }
};

struct Softsign {
  static Tensor value(const Tensor& x, double) { return x / (at::abs(x) + 1); }
  static Tensor derivative(const Tensor& x, double) { return 1 / at::square(at::abs(x) + 1); }
};

struct Squareplus {
  // (x + root) / 2 without the difference for negative x.
  static Tensor value(const Tensor& x, double b) {
    const Tensor larger = (at::abs(x) + root(x, b)) / 2;
    return at::where(x >= 0, larger, (b / 4) / larger);
  }
  static Tensor derivative(const Tensor& x, double b) { return value(x, b) / root(x, b); }
  static Tensor root(const Tensor& x, double b) { return at::sqrt(at::square(x) + b); }
};

struct SparsePlus {
  static Tensor value(const Tensor& x, double) {
    return at::where(x < 1, at::square(at::relu(x + 1)) / 4, x);
  }
  static Tensor derivative(const Tensor& x, double) { return sparse_sigmoid(x); }
};

}  // namespace

Tensor relu(const Tensor& x, const ReluOptions& options) {
  const bool has_threshold = options.threshold != 0;
  if (!has_threshold && !options.max_value) {
    return options.negative_slope == 0 ? at::relu(x) : at::leaky_relu(x, options.negative_slope);
  }
  Tensor result = has_threshold ? at::threshold(x, options.threshold, 0) : x;
  // As Keras does, also where the threshold is negative.
  if (options.max_value) result = at::hardtanh(result, 0, *options.max_value);
  if (options.negative_slope == 0) return result;
  return result - at::relu(options.threshold - x) * options.negative_slope;
}

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return at::leaky_relu(x, negative_slope);
}
Tensor relu6(const Tensor& x) { return at::relu6(x); }
Tensor elu(const Tensor& x, double alpha) { return at::elu(x, alpha); }
Tensor celu(const Tensor& x, double alpha) { return at::celu(x, alpha); }
Tensor selu(const Tensor& x) { return at::selu(x); }
Tensor gelu(const Tensor& x, bool approximate) {
  return at::gelu(x, approximate ? "tanh" : "none");
}
Tensor silu(const Tensor& x) { return at::silu(x); }
Tensor mish(const Tensor& x) { return at::mish(x); }
Tensor softplus(const Tensor& x) {
  // From the threshold on softplus(x) = x, which at libtorch's default 20 costs digits in float64.
  return at::softplus(x, /*beta=*/1, /*threshold=*/x.scalar_type() == at::kDouble ? 40 : 20);
}
Tensor squareplus(const Tensor& x, double b) { return WithDerivative<Squareplus>::apply(x, b); }
Tensor sparse_plus(const Tensor& x) { return WithDerivative<SparsePlus>::apply(x, 0.0); }
Tensor softsign(const Tensor& x) { return WithDerivative<Softsign>::apply(x, 0.0); }
Tensor sigmoid(const Tensor& x) { return at::sigmoid(x); }
Tensor log_sigmoid(const Tensor& x) { return at::log_sigmoid(x); }
Tensor sparse_sigmoid(const Tensor& x) { return (at::hardtanh(x, -1, 1) + 1) / 2; }
Tensor tanh(const Tensor& x) { return at::tanh(x); }
Tensor tanh_shrink(const Tensor& x) { return x - at::tanh(x); }
Tensor soft_shrink(const Tensor& x, double threshold) { return at::softshrink(x, threshold); }
Tensor hard_shrink(const Tensor& x, double threshold) { return at::hardshrink(x, threshold); }
Tensor hard_sigmoid(const Tensor& x) { return at::hardsigmoid(x); }
Tensor hard_silu(const Tensor& x) { return at::hardswish(x); }
Tensor hard_tanh(const Tensor& x) { return at::hardtanh(x, -1, 1); }
Tensor threshold(const Tensor& x, double threshold, double default_value) {
  return at::threshold(x, threshold, default_value);
}
Tensor exponential(const Tensor& x) { return at::exp(x); }
Tensor linear(const Tensor& x) { return x; }

Tensor softmax(const Tensor& x, int64_t axis) { return at::softmax(x, axis); }
Tensor log_softmax(const Tensor& x, int64_t axis) { return at::log_softmax(x, axis); }

Tensor sparsemax(const Tensor& x, int64_t axis) {
  const Tensor sorted = std::get<0>(at::sort(x, axis, /*descending=*/true));
  const Tensor sums = at::cumsum(sorted, axis);
  std::vector<int64_t> along_axis(static_cast<size_t>(x.dim()), 1);
  along_axis.at(static_cast<size_t>(axis < 0 ? axis + x.dim() : axis)) = -1;
  const Tensor rank = at::arange(1, x.size(axis) + 1, x.options()).view(along_axis);
  const Tensor support = sorted > (sums - 1) / rank;
  const Tensor count = at::sum(support, {axis}, /*keepdim=*/true, x.scalar_type());
  // Keras adds up all sums of the support where the paper takes the last one.
  const Tensor total = at::sum(sums.masked_fill(support.logical_not(), 0), {axis}, true);
  return at::relu(x - (total - 1) / count);
}

Tensor glu(const Tensor& x, int64_t axis) {
  STRATA_CHECK(x.size(axis) % 2 == 0, kInvalidArgument, "[activations] glu: got shape ", x.sizes(),
               " and axis ", axis, "; expected an even size there");
  return at::glu(x, axis);
}

}  // namespace strata::activations
