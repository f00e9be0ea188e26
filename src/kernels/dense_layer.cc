// What a dense layer is beside its products: a node of the graph of our own for addmm, whose
// backward is one call below autograd, where libtorch's makes views, two calls and a sum through
// autograd.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "kernels/autograd_node.h"
#include "kernels/bf16_tensor.h"
#include "kernels/dense_node.h"
#include "kernels/dispatch_key.h"
#include "kernels/find_operator.h"
#include "kernels/half_dense_layer.h"
#include "kernels/into.h"
#include "kernels/layer_kernels.h"
#include "kernels/products.h"
#include "kernels/registration.h"

namespace strata::kernels {

/// Longer columns go to libtorch, which adds in a tree.
constexpr int64_t kMaxSummedRows = 4096;

namespace {

bool sums_columns(const Matrix& matrix) {
  return matrix.view.column_stride == 1 && matrix.rows <= kMaxSummedRows;
}

bool lies_as(const at::Tensor& result, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return is_cpu_float(result) && result.sizes() == sizes && result.strides() == strides;
}

}  // namespace

at::Tensor column_sums(const at::Tensor& gradient, const Matrix& view) {
  if (!sums_columns(view)) return gradient.sum(0);
  at::Tensor sums = empty_float({view.columns});
  layer_kernels().column_sums(view.view.data, view.rows, view.columns, view.view.row_stride,
                              sums.mutable_data_ptr<float>());
  return sums;
}

at::Tensor bf16_column_sums(const at::Tensor& matrix) {
  if (matrix.stride(1) != 1 || matrix.size(0) > kMaxSummedRows) {
    return at::sum(matrix, {0}, /*keepdim=*/false, at::kFloat);
  }
  at::Tensor sums = empty_float({matrix.size(1)});
  layer_kernels().column_sums_bf16(bf16_data(matrix), matrix.size(0), matrix.size(1),
                                   matrix.stride(0), sums.mutable_data_ptr<float>());
  return sums;
}

const LayerKernels& layer_kernels() { return STRATA_KERNELS_FOR(best_cpu_isa(), layer_kernels); }

namespace {

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
DenseGradients dense_backward_cpu(const at::Tensor& given, const OptionalTensor& a,
                                  const OptionalTensor& b, bool b_by_columns, bool wants_bias) {
  // An expanded gradient has strides of 0.
  const at::Tensor gradient = matrix_of(given) ? given : given.contiguous();
  const Matrix g = *matrix_of(gradient);
  DenseGradients result;
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

DenseGradients dense_backward_by_libtorch(const at::Tensor& gradient, const OptionalTensor& a,
                                          const OptionalTensor& b, bool b_by_columns,
                                          bool wants_bias) {
  DenseGradients result;
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

class DenseLayerBackward final : public DenseNode {
 public:
  std::string name() const override { return "DenseLayerBackward"; }

 private:
  DenseGradients gradients_of(const at::Tensor& gradient, const OptionalTensor& a,
                              const OptionalTensor& b, bool wants_bias) override {
    // With a graph of the gradients they may be differentiated again.
    if (at::GradMode::is_enabled() || !is_cpu_float(gradient)) {
      return dense_backward_by_libtorch(gradient, a, b, /*b_by_columns=*/false, wants_bias);
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto backward =
        find_operator<decltype(dense_backward_cpu)>("strata::addmm_backward");
    return backward.call(gradient, a, b, b_by_columns(), wants_bias);
  }
};

/// At autograd's key, outside replica functions too: there libtorch's.
at::Tensor addmm_with_node(c10::DispatchKeySet keys, const at::Tensor& bias, const at::Tensor& a,
                           const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  const bool layer = keys.has(kReplicaKey) && runs_here(KernelClass::kDenseLayer) &&
                     is_dense_layer(bias, a, b, is_cpu_float) && beta.equal(1) && alpha.equal(1);
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
  if (!wants_graph(bias, a, b)) return output;
  const auto node = make_node<DenseLayerBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(bias, a, b));
  node->save(a, b);
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace

bool addmm_backward_into(const at::Tensor& given, const OptionalTensor& a, const OptionalTensor& b,
                         bool b_by_columns, const at::Tensor& of_bias, const at::Tensor& of_a,
                         const at::Tensor& of_b) {
  const auto g = matrix_of(given);
  if (!g || a.has_value() != of_b.defined() || b.has_value() != of_a.defined()) return false;
  if (of_bias.defined() && !(sums_columns(*g) && lies_as(of_bias, {g->columns}, {1}))) return false;
  std::optional<Matrix> left, right;
  if (b) {
    right = matrix_of(*b);
    if (right) right = right->transposed();
    if (!takes_product(g, right) ||
        !lies_as(of_a, {g->rows, right->columns}, {right->columns, 1})) {
      return false;
    }
  }
  if (a) {
    left = matrix_of(*a);
    if (!left) return false;
    const int64_t rows = left->columns;
    const bool takes =
        b_by_columns ? takes_product(g->transposed(), left) : takes_product(left->transposed(), g);
    const std::array<int64_t, 2> strides = {b_by_columns ? 1 : g->columns, b_by_columns ? rows : 1};
    if (!takes || !lies_as(of_b, {rows, g->columns}, strides)) return false;
  }
  if (of_bias.defined()) {
    layer_kernels().column_sums(g->view.data, g->rows, g->columns, g->view.row_stride,
                                of_bias.mutable_data_ptr<float>());
  }
  if (b) product_into(*g, *right, nullptr, of_a.mutable_data_ptr<float>());
  if (!a) return true;
  float* const to = of_b.mutable_data_ptr<float>();
  if (b_by_columns) {
    product_into(g->transposed(), *left, nullptr, to);
  } else {
    product_into(left->transposed(), *g, nullptr, to);
  }
  return true;
}

void register_dense_layer(torch::Library& library) {
  library.impl("addmm", TORCH_FN(addmm_with_node));
}

}  // namespace strata::kernels
