#include "kernels/half_dense_layer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include <tuple>
#include <utility>

#include "kernels/autograd_node.h"
#include "kernels/bf16_products.h"
#include "kernels/bf16_tensor.h"
#include "kernels/dense_node.h"
#include "kernels/find_operator.h"
#include "kernels/half_cast.h"
#include "kernels/products.h"

namespace strata::kernels {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

/// The decomposition.
DenseGradients half_backward(const at::Tensor& gradient, const OptionalTensor& a,
                             const OptionalTensor& b, bool, bool wants_bias,
                             at::ScalarType bias_dtype, at::ScalarType weights_dtype) {
  DenseGradients result;
  if (wants_bias) std::get<0>(result) = at::sum(gradient, {0}, false, at::kFloat).to(bias_dtype);
  if (b) std::get<1>(result) = at::mm(gradient, b->t());
  if (a && weights_dtype == at::kFloat) {
    std::get<2>(result) = at::mm(a->t().to(at::kFloat), gradient.to(at::kFloat));
  } else if (a) {
    std::get<2>(result) = at::mm(a->t(), gradient);
  }
  return result;
}

/// a^T g, laid out as b is: a layer's weights come transposed.
at::Tensor weights_gradient(const at::Tensor& a, const at::Tensor& gradient, bool by_columns,
                            at::ScalarType dtype) {
  const at::Tensor left = by_columns ? gradient.t() : a.t();
  const at::Tensor& right = by_columns ? a : gradient;
  auto own = bf16_product(left, right, {}, dtype);
  const at::Tensor result = own ? *std::move(own) : at::mm(left, right).to(dtype);
  return by_columns ? result.t() : result;
}

DenseGradients half_backward_cpu(const at::Tensor& given, const OptionalTensor& a,
                                 const OptionalTensor& b, bool b_by_columns, bool wants_bias,
                                 at::ScalarType bias_dtype, at::ScalarType weights_dtype) {
  // An expanded gradient has strides of 0.
  const at::Tensor gradient =
      given.stride(0) == 1 || given.stride(1) == 1 ? given : given.contiguous();
  DenseGradients result;
  if (wants_bias) std::get<0>(result) = bf16_column_sums(gradient).to(bias_dtype);
  if (b) {
    auto own = bf16_product(gradient, b->t());
    std::get<1>(result) = own ? *std::move(own) : at::mm(gradient, b->t());
  }
  if (a) std::get<2>(result) = weights_gradient(*a, gradient, b_by_columns, weights_dtype);
  return result;
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "half_addmm_backward(Tensor gradient, Tensor? a, Tensor? b, bool b_by_columns, bool "
      "wants_bias, ScalarType bias_dtype, ScalarType weights_dtype) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("half_addmm_backward", half_backward);
}
TORCH_LIBRARY_IMPL(strata, CPU, library) { library.impl("half_addmm_backward", half_backward_cpu); }

class HalfDenseLayerBackward final : public DenseNode {
 public:
  std::string name() const override { return "HalfDenseLayerBackward"; }

  at::ScalarType bias_dtype = at::kBFloat16;
  at::ScalarType weights_dtype = at::kBFloat16;

 private:
  DenseGradients gradients_of(const at::Tensor& gradient, const OptionalTensor& a,
                              const OptionalTensor& b, bool wants_bias) override {
    // With a graph of the gradients they may be differentiated again.
    if (at::GradMode::is_enabled() || !is_cpu_bfloat16(gradient)) {
      return half_backward(gradient, a, b, b_by_columns(), wants_bias, bias_dtype, weights_dtype);
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto backward =
        find_operator<decltype(half_backward_cpu)>("strata::half_addmm_backward");
    return backward.call(gradient, a, b, b_by_columns(), wants_bias, bias_dtype, weights_dtype);
  }
};

/// Where the gradient of `tensor` goes: past a cast, to the variable. @param dtype  Of it there.
Edge past_cast(const at::Tensor& tensor, at::ScalarType& dtype) {
  if (Node* const cast = cast_node_of(tensor)) {
    dtype = at::kFloat;
    return cast->next_edge(0);
  }
  return torch::autograd::collect_next_edges(tensor)[0];
}

}  // namespace

std::optional<at::Tensor> half_dense_layer(c10::DispatchKeySet keys, const at::Tensor& bias,
                                           const at::Tensor& a, const at::Tensor& b) {
  if (!is_dense_layer(bias, a, b, is_cpu_bfloat16)) return std::nullopt;
  at::Tensor output;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    output = at::_ops::addmm::redispatch(keys & c10::after_autograd_keyset, bias, a, b, 1, 1);
  }
  if (!wants_graph(bias, a, b)) return output;
  const auto node = make_node<HalfDenseLayerBackward>();
  node->add_next_edge(past_cast(bias, node->bias_dtype));
  node->add_next_edge(torch::autograd::collect_next_edges(a)[0]);
  node->add_next_edge(past_cast(b, node->weights_dtype));
  node->save(a, b);
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace strata::kernels
