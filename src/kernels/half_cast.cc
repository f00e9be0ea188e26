#include "kernels/half_cast.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <utility>

#include "kernels/autograd_node.h"

namespace strata::kernels {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

struct HalfCastBackward final : Node {
  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return variable_list(1);
    return {gradients[0].to(dtype)};
  }
  std::string name() const override { return "HalfCastBackward"; }

  at::ScalarType dtype = at::kFloat;
};

}  // namespace

at::Tensor as_cast_of(const at::Tensor& half, const at::Tensor& weight) {
  at::TensorImpl* const impl = half.unsafeGetTensorImpl();
  at::Tensor result(
      impl->shallow_copy_and_detach(impl->version_counter(), /*allow_metadata_change=*/false));
  if (!at::GradMode::is_enabled() || !weight.requires_grad()) return result;
  const auto node = make_node<HalfCastBackward>();
  node->dtype = weight.scalar_type();
  node->set_next_edges(torch::autograd::collect_next_edges(weight));
  torch::autograd::set_history(result, node);
  return result;
}

Node* cast_node_of(const at::Tensor& tensor) {
  if (!tensor.requires_grad()) return nullptr;
  return dynamic_cast<HalfCastBackward*>(tensor.grad_fn().get());
}

}  // namespace strata::kernels
