#include "kernels/batch_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/autograd_node.h"
#include "kernels/batch_norm_kernels.h"
#include "kernels/find_operator.h"
#include "kernels/kernel_threads.h"
#include "kernels/optional_tensor.h"
#include "kernels/products.h"
#include "strata/core/error.h"

namespace strata::kernels {

const BatchNormKernels& batch_norm_kernels() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), batch_norm_kernels);
}

namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

BatchNormShape shape_of(const at::Tensor& x) {
  return {x.size(0), x.size(1), x.numel() / (x.size(0) * x.size(1))};
}

/// Calls part(first channel, end).
template <typename Part>
void for_channels(const BatchNormShape& shape, const Part& part) {
  const int64_t grain = std::max<int64_t>(1, (1 << 15) / (shape.images * shape.plane));
  parallel_for(0, shape.channels, grain, part);
}

// Operators of libtorch's dispatcher, so that whatever records a step below autograd sees them.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward_cpu(const at::Tensor& x,
                                                                       const at::Tensor& weight,
                                                                       const at::Tensor& bias,
                                                                       const OptionalTensor& beside,
                                                                       double epsilon, bool relu) {
  const BatchNormShape shape = shape_of(x);
  at::Tensor y = empty_float(x.sizes());
  at::Tensor mean = empty_float({shape.channels});
  at::Tensor variance = empty_float({shape.channels});
  at::Tensor inverse = empty_float({shape.channels});
  const BatchNormForward arrays{.x = x.const_data_ptr<float>(),
                                .beside = floats_or_null(beside),
                                .weight = weight.const_data_ptr<float>(),
                                .bias = bias.const_data_ptr<float>(),
                                .epsilon = epsilon,
                                .relu = relu,
                                .y = y.mutable_data_ptr<float>(),
                                .mean = mean.mutable_data_ptr<float>(),
                                .variance = variance.mutable_data_ptr<float>(),
                                .inverse = inverse.mutable_data_ptr<float>()};
  for_channels(shape, [&](int64_t begin, int64_t end) {
    batch_norm_kernels().forward(shape, arrays, begin, end);
  });
  return {std::move(y), std::move(mean), std::move(variance), std::move(inverse)};
}

/// @param y   What relu gave; none: there was none.
/// @param dx  Where to write it: may be `gradient`; none: not wanted.
std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& gradient, const at::Tensor& x, const OptionalTensor& y,
    const at::Tensor& weight, const at::Tensor& mean, const at::Tensor& inverse,
    const OptionalTensor& dx, bool wants_beside) {
  const BatchNormShape shape = shape_of(x);
  at::Tensor dweight = empty_float({shape.channels});
  at::Tensor dbias = empty_float({shape.channels});
  at::Tensor dbeside;
  if (wants_beside) dbeside = empty_float(x.sizes());
  const BatchNormBackward arrays{
      .gradient = gradient.const_data_ptr<float>(),
      .x = x.const_data_ptr<float>(),
      .y = floats_or_null(y),
      .weight = weight.const_data_ptr<float>(),
      .mean = mean.const_data_ptr<float>(),
      .inverse = inverse.const_data_ptr<float>(),
      .dx = dx ? dx->mutable_data_ptr<float>() : nullptr,
      .dbeside = wants_beside ? dbeside.mutable_data_ptr<float>() : nullptr,
      .dweight = dweight.mutable_data_ptr<float>(),
      .dbias = dbias.mutable_data_ptr<float>()};
  for_channels(shape, [&](int64_t begin, int64_t end) {
    batch_norm_kernels().backward(shape, arrays, begin, end);
  });
  return {std::move(dweight), std::move(dbias), std::move(dbeside)};
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "batch_norm_of_planes(Tensor x, Tensor weight, Tensor bias, Tensor? beside, float epsilon,"
      " bool relu) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "batch_norm_of_planes_backward(Tensor gradient, Tensor x, Tensor? y, Tensor weight,"
      " Tensor mean, Tensor inverse, Tensor(a!)? dx, bool wants_beside)"
      " -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("batch_norm_of_planes", forward_cpu);
  library.impl("batch_norm_of_planes_backward", backward_cpu);
}

/// All dimensions but the channels'.
std::vector<int64_t> dims_of_channels(const at::Tensor& x) {
  std::vector<int64_t> dims = {0};
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

/// One number a channel, to go with x.
at::Tensor along_channels(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = values.size(0);
  return values.view(sizes);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward_by_libtorch(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& beside, double epsilon, bool relu) {
  const std::vector<int64_t> dims = dims_of_channels(x);
  at::Tensor mean = x.mean(dims);
  at::Tensor variance = (x - along_channels(mean, x)).square().mean(dims);
  at::Tensor inverse = (variance + epsilon).rsqrt();
  at::Tensor y =
      (x - along_channels(mean, x)) * along_channels(inverse * weight, x) + along_channels(bias, x);
  if (beside) y = y + *beside;
  if (relu) y = y.clamp_min(0);  // relu has no shapes of its own
  return {std::move(y), std::move(mean), std::move(variance), std::move(inverse)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_by_libtorch(
    const at::Tensor& gradient, const at::Tensor& x, const OptionalTensor& y,
    const at::Tensor& weight, const at::Tensor& mean, const at::Tensor& inverse,
    const OptionalTensor& dx, bool wants_beside) {
  const std::vector<int64_t> dims = dims_of_channels(x);
  const at::Tensor g = y ? at::threshold_backward(gradient, *y, 0) : gradient;
  const at::Tensor normalized = (x - along_channels(mean, x)) * along_channels(inverse, x);
  at::Tensor dweight = (g * normalized).sum(dims);
  at::Tensor dbias = g.sum(dims);
  at::Tensor dbeside = wants_beside ? g.clone() : at::Tensor();
  if (dx) {
    const double count = static_cast<double>(x.numel() / x.size(1));
    dx->copy_(
        (g - along_channels(dbias / count, x) - normalized * along_channels(dweight / count, x)) *
        along_channels(inverse * weight, x));
  }
  return {std::move(dweight), std::move(dbias), std::move(dbeside)};
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("batch_norm_of_planes", forward_by_libtorch);
  library.impl("batch_norm_of_planes_backward", backward_by_libtorch);
}

/// No process else has this memory.
bool owned(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1 && tensor.is_contiguous() &&
         tensor.layout() == at::kStrided;
}

struct BatchNormOfPlanesBackward final : Node {
  variable_list apply(variable_list&& gradients) override {
    at::Tensor gradient = std::move(gradients[0]);
    variable_list results(4);
    if (!gradient.defined()) return results;
    const at::Tensor x_value = x.unpack();
    const at::Tensor weight_value = weight.unpack();
    OptionalTensor y_value;
    if (relu) {
      STRATA_CHECK(static_cast<uint32_t>(y._version()) == y_version, kFailedPrecondition,
                   "[batch_norm] backward: got an output that was changed in place; copy it first");
      y_value = y;
    }
    const bool wants_x = task_should_compute_output(0);
    const bool wants_beside = task_should_compute_output(3);
    // With a graph of the gradients they may be differentiated again.
    if (at::GradMode::is_enabled() || !is_cpu_float(gradient)) {
      if (relu) gradient = at::threshold_backward(gradient, *y_value, 0);
      std::tie(results[0], results[1], results[2]) =
          at::native_batch_norm_backward(gradient, x_value, weight_value, {}, {}, mean, inverse,
                                         /*train=*/true, epsilon, {wants_x, true, true});
      if (wants_beside) results[3] = gradient;
      return results;
    }
    const bool reuse = owned(gradient);
    if (!reuse) gradient = gradient.contiguous();
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto backward =
        find_operator<decltype(backward_cpu)>("strata::batch_norm_of_planes_backward");
    // Without relu the gradient of what was beside is the gradient itself.
    const bool apart = wants_beside && relu;
    OptionalTensor dx;
    if (wants_x) {  // by an operator, which a trace sees
      dx = reuse && (apart || !wants_beside)
               ? gradient
               : at::empty_like(x_value, {}, at::MemoryFormat::Contiguous);
    }
    std::tie(results[1], results[2], results[3]) =
        backward.call(gradient, x_value, y_value, weight_value, mean, inverse, dx, apart);
    if (wants_x) results[0] = *std::move(dx);
    if (wants_beside && !apart) results[3] = std::move(gradient);
    return results;
  }

  void release_variables() override {
    x.reset_data();
    weight.reset_data();
    y.reset();
    mean.reset();
    inverse.reset();
  }
  std::string name() const override { return "BatchNormOfPlanesBackward"; }

  SavedVariable x;
  SavedVariable weight;
  at::Tensor y;  // Without its history: relu's slope is constant.
  uint32_t y_version = 0;
  at::Tensor mean;
  at::Tensor inverse;
  double epsilon = 0;
  bool relu = false;
};

bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && is_cpu_float(tensor) && tensor.is_contiguous() &&
         !tensor._fw_grad(0).defined();
}

bool applies(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
             const at::Tensor& beside) {
  const auto fits = [&](const at::Tensor& each) {
    return is_plain(each) && each.dim() == 1 && each.size(0) == x.size(1);
  };
  return runs_here(KernelClass::kBatchNorm) && is_plain(x) && x.dim() >= 2 && x.numel() > 0 &&
         fits(weight) && fits(bias) &&
         (!beside.defined() || (is_plain(beside) && beside.sizes() == x.sizes()));
}

}  // namespace

std::optional<BatchNormResult> batch_norm_of_planes(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias,
                                                    const at::Tensor& beside, double epsilon,
                                                    bool relu) {
  if (!applies(x, weight, bias, beside)) return std::nullopt;
  BatchNormResult result;
  at::Tensor inverse;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto forward =
        find_operator<decltype(forward_cpu)>("strata::batch_norm_of_planes");
    std::tie(result.y, result.mean, result.variance, inverse) =
        forward.call(x, weight, bias, if_defined(beside), epsilon, relu);
  }
  if (!wants_graph(x, weight, bias, beside)) return result;
  const auto node = make_node<BatchNormOfPlanesBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(x, weight, bias, beside));
  node->x = SavedVariable(x, /*is_output=*/false);
  node->weight = SavedVariable(weight, /*is_output=*/false);
  node->mean = result.mean;
  node->inverse = std::move(inverse);
  node->epsilon = epsilon;
  node->relu = relu;
  torch::autograd::set_history(result.y, node);
  if (relu) {
    node->y = result.y.detach();
    node->y_version = static_cast<uint32_t>(node->y._version());
  }
  return result;
}

}  // namespace strata::kernels
