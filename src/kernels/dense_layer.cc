// What a dense layer is beside its products: a node of the graph of our own for addmm, whose
// backward is one call below autograd, where libtorch's makes views, two calls and a sum through
// autograd.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <utility>

#include "kernels/autograd_node.h"
#include "kernels/dispatch_key.h"
#include "kernels/half_dense_layer.h"
#include "kernels/layer_kernels.h"
#include "kernels/products.h"
#include "kernels/registration.h"

namespace strata::kernels {

/// Longer columns go to libtorch, which adds in a tree.
constexpr int64_t kMaxSummedRows = 4096;

at::Tensor column_sums(const at::Tensor& gradient, const Matrix& view) {
  if (view.view.column_stride != 1 || view.rows > kMaxSummedRows) return gradient.sum(0);
  at::Tensor sums = empty_float({view.columns});
  layer_kernels().column_sums(view.view.data, view.rows, view.columns, view.view.row_stride,
                              sums.mutable_data_ptr<float>());
  return sums;
}

const LayerKernels& layer_kernels() {
  switch (best_cpu_isa()) {
#if defined(__x86_64__)
    case CpuIsa::kAvx512:
      return layer_kernels_avx512();
    case CpuIsa::kAvx2:
      return layer_kernels_avx2();
#endif
    default:
      return layer_kernels_baseline();
  }
}

namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

/// a^T g, laid out as b is: a layer's weights come transposed.
at::Tensor weights_gradient(const at::Tensor& a, const at::Tensor& gradient, const Matrix& g,
                            bool by_columns) {
  const auto left = matrix_of(a);
  if (!by_columns) {
    auto own = left ? own_product(left->transposed(), g) : std::nullopt;
    return own ? *std::move(own) : at::mm(a.t(), gradient);
  }
  auto own = own_product(g.transposed(), left);
  at::Tensor result = own ? *std::move(own) : at::mm(gradient.t(), a);
  const int64_t k = result.size(1);
  if (own) {
    result.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef({k, g.columns}),
                                                        at::IntArrayRef({1, k}));
    return result;
  }
  return result.t();
}

// An operator of libtorch's dispatcher, so that whatever records a step below autograd sees it too.
std::tuple<at::Tensor, at::Tensor, at::Tensor> dense_backward_cpu(const at::Tensor& given,
                                                                  const OptionalTensor& a,
                                                                  const OptionalTensor& b,
                                                                  bool b_by_columns,
                                                                  bool wants_bias) {
  // An expanded gradient has strides of 0.
  const at::Tensor gradient = matrix_of(given) ? given : given.contiguous();
  const Matrix g = *matrix_of(gradient);
  std::tuple<at::Tensor, at::Tensor, at::Tensor> result;
  if (wants_bias) std::get<0>(result) = column_sums(gradient, g);
  if (b) {
    const auto right = matrix_of(*b);
    auto own = right ? own_product(g, right->transposed()) : std::nullopt;
    std::get<1>(result) = own ? *std::move(own) : at::mm(gradient, b->t());
  }
  if (a) std::get<2>(result) = weights_gradient(*a, gradient, g, b_by_columns);
  return result;
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "addmm_backward(Tensor gradient, Tensor? a, Tensor? b, bool b_by_columns, bool wants_bias)"
      " -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) { library.impl("addmm_backward", dense_backward_cpu); }

std::tuple<at::Tensor, at::Tensor, at::Tensor> dense_backward_by_libtorch(
    const at::Tensor& gradient, const OptionalTensor& a, const OptionalTensor& b, bool b_by_columns,
    bool wants_bias) {
  std::tuple<at::Tensor, at::Tensor, at::Tensor> result;
  if (wants_bias) std::get<0>(result) = gradient.sum(0);
  if (b) std::get<1>(result) = at::mm(gradient, b->t());
  if (a) {
    std::get<2>(result) = b_by_columns ? at::mm(gradient.t(), *a).t() : at::mm(a->t(), gradient);
  }
  return result;
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("addmm_backward", dense_backward_by_libtorch);
}

/// Of bias + a b.
struct DenseLayerBackward final : Node {
  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& gradient = gradients[0];
    variable_list results(3);
    if (!gradient.defined()) return results;
    const bool wants_bias = task_should_compute_output(0);
    OptionalTensor a_value, b_value;
    if (task_should_compute_output(1)) b_value = b.unpack();
    if (task_should_compute_output(2)) a_value = a.unpack();
    // With a graph of the gradients they may be differentiated again.
    if (at::GradMode::is_enabled() || !is_cpu_float(gradient)) {
      if (wants_bias) results[0] = gradient.sum(0);
      if (b_value) results[1] = at::mm(gradient, b_value->t());
      if (a_value) results[2] = at::mm(a_value->t(), gradient);
      return results;
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto backward = c10::Dispatcher::singleton()
                                     .findSchemaOrThrow("strata::addmm_backward", "")
                                     .typed<decltype(dense_backward_cpu)>();
    std::tie(results[0], results[1], results[2]) =
        backward.call(gradient, a_value, b_value, b_by_columns, wants_bias);
    return results;
  }
  void release_variables() override {
    a.reset_data();
    b.reset_data();
  }
  std::string name() const override { return "DenseLayerBackward"; }

  SavedVariable a;
  SavedVariable b;
  bool b_by_columns = false;
};

bool is_plain_operand(const at::Tensor& tensor, int64_t dim) {
  return is_cpu_float(tensor) && tensor.dim() == dim && !tensor._fw_grad(0).defined();
}

/// At autograd's key, outside replica functions too: there libtorch's.
at::Tensor addmm_with_node(c10::DispatchKeySet keys, const at::Tensor& bias, const at::Tensor& a,
                           const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  const bool layer = keys.has(kReplicaKey) && runs_here(KernelClass::kDenseLayer) &&
                     is_plain_operand(bias, 1) && is_plain_operand(a, 2) &&
                     is_plain_operand(b, 2) && a.size(1) == b.size(0) &&
                     bias.size(0) == b.size(1) && beta.equal(1) && alpha.equal(1);
  if (!layer) {
    if (keys.has(kReplicaKey) && beta.equal(1) && alpha.equal(1)) {
      if (auto output = half_dense_layer(keys, bias, a, b)) return *std::move(output);
    }
    // libtorch's kernel is one for all devices, and is at this key too.
    const auto others = keys.remove(c10::DispatchKey::AutogradCPU);
    return at::_ops::addmm::redispatch(others.add(c10::DispatchKey::AutogradOther), bias, a, b,
                                       beta, alpha);
  }
  at::Tensor output;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    output =
        at::_ops::addmm::redispatch(keys & c10::after_autograd_keyset, bias, a, b, beta, alpha);
  }
  const bool wants_a = a.requires_grad();
  const bool wants_b = b.requires_grad();
  if (!at::GradMode::is_enabled() || !(wants_a || wants_b || bias.requires_grad())) return output;
  const auto node = make_node<DenseLayerBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(bias, a, b));
  if (wants_a) node->b = SavedVariable(b, /*is_output=*/false);
  if (wants_b) node->a = SavedVariable(a, /*is_output=*/false);
  node->b_by_columns = b.stride(0) == 1 && b.stride(1) != 1;
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace

void register_dense_layer(torch::Library& library) {
  library.impl("addmm", TORCH_FN(addmm_with_node));
}

}  // namespace strata::kernels
