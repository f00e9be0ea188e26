#include "kernels/projections.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/autograd_node.h"
#include "kernels/find_operator.h"
#include "kernels/kernel_threads.h"
#include "kernels/products.h"

namespace strata::kernels {
namespace {

using Tensors = std::vector<at::Tensor>;

std::tuple<at::Tensor, Tensors, Tensors> projections_backward_of_aten(at::TensorList gradients,
                                                                      const at::Tensor& x,
                                                                      at::TensorList weights,
                                                                      bool wants_x,
                                                                      bool wants_biases) {
  std::tuple<at::Tensor, Tensors, Tensors> result;
  auto& [of_x, of_weights, of_biases] = result;
  for (size_t i = 0; i < gradients.size(); ++i) {
    of_weights.push_back(at::mm(x.t(), gradients[i]));
    if (wants_biases) of_biases.push_back(gradients[i].sum(0));
    if (!wants_x) continue;
    of_x = i == 0 ? at::mm(gradients[i], weights[i].t())
                  : at::addmm(of_x, gradients[i], weights[i].t());
  }
  if (!wants_x) of_x = at::zeros({0}, x.options());
  return result;
}

Tensors projections_of_aten(const at::Tensor& x, at::TensorList weights, at::TensorList biases) {
  Tensors outputs;
  for (size_t i = 0; i < weights.size(); ++i) {
    outputs.push_back(biases.empty() ? at::mm(x, weights[i]) : at::addmm(biases[i], x, weights[i]));
  }
  return outputs;
}

bool is_matrix(const at::Tensor& x) {
  return is_cpu_float(x) && x.dim() == 2 && x.numel() > 0 && unit_strides(x).has_value();
}

bool are_projections(const at::Tensor& x, at::TensorList weights, at::TensorList biases) {
  if (!use_own_matmul() || !is_matrix(x) || weights.empty()) return false;
  if (!biases.empty() && biases.size() != weights.size()) return false;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!is_matrix(weights[i]) || weights[i].size(0) != x.size(1)) return false;
    if (biases.empty()) continue;
    const at::Tensor& bias = biases[i];
    if (!is_cpu_float(bias) || bias.dim() != 1 || bias.size(0) != weights[i].size(1) ||
        bias.stride(0) != 1) {
      return false;
    }
  }
  return true;
}

constexpr int64_t kRowsOfPart = 64;

/// Calls part(first row, rows, scratch) for parts of a matrix's rows, each of `work`
/// multiplications.
template <typename Part>
void for_rows(int64_t rows, int64_t work, const Part& part) {
  parallel_for(0, (rows + kRowsOfPart - 1) / kRowsOfPart,
               std::max<int64_t>(1, kPartMultiplications / std::max<int64_t>(1, work)),
               [&](int64_t begin, int64_t end) {
                 KeptScratch scratch;
                 const int64_t first = begin * kRowsOfPart;
                 part(first, std::min(rows, end * kRowsOfPart) - first, scratch);
               });
}

Tensors projections_cpu(const at::Tensor& x, at::TensorList weights, at::TensorList biases) {
  if (!are_projections(x, weights, biases)) return projections_of_aten(x, weights, biases);
  const int64_t rows = x.size(0);
  const MatrixView left = *matrix_view(x);
  Tensors outputs;
  std::vector<MatmulProblem> problems;
  int64_t columns = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t n = weights[i].size(1);
    columns += n;
    outputs.push_back(empty_float({rows, n}));
    problems.push_back({rows, n, x.size(1), left, *matrix_view(weights[i]),
                        biases.empty() ? nullptr : biases[i].const_data_ptr<float>(),
                        outputs.back().mutable_data_ptr<float>(), n});
  }
  for_rows(rows, kRowsOfPart * x.size(1) * columns,
           [&](int64_t first, int64_t count, KeptScratch& scratch) {
             for (MatmulProblem problem : problems) {
               problem.m = count;
               problem.a.data += first * problem.a.row_stride;
               problem.c += first * problem.c_stride;
               multiply_dense_here(problem, scratch);
             }
           });
  return outputs;
}

at::Tensor gradient_of_x(const std::vector<Matrix>& gradients, const at::Tensor& x,
                         at::TensorList weights) {
  at::Tensor result = empty_float(x.sizes());
  const int64_t inputs = x.size(1);
  float* const out = result.mutable_data_ptr<float>();
  int64_t columns = 0;
  for (const Matrix& each : gradients) columns += each.columns;
  for_rows(x.size(0), kRowsOfPart * inputs * columns,
           [&](int64_t first, int64_t count, KeptScratch& scratch) {
             for (size_t i = 0; i < gradients.size(); ++i) {
               const Matrix& g = gradients[i];
               MatrixView part = g.view;
               part.data += first * part.row_stride;
               const MatrixView weight = *matrix_view(weights[i]);
               MatmulProblem problem{count,
                                     inputs,
                                     g.columns,
                                     part,
                                     {weight.data, weight.column_stride, weight.row_stride},
                                     nullptr,
                                     out + first * inputs,
                                     inputs};
               problem.add = i > 0;
               multiply_dense_here(problem, scratch);
             }
           });
  return result;
}

std::tuple<at::Tensor, Tensors, Tensors> projections_backward_cpu(at::TensorList given,
                                                                  const at::Tensor& x,
                                                                  at::TensorList weights,
                                                                  bool wants_x, bool wants_biases) {
  if (!are_projections(x, weights, {}) || !std::all_of(given.begin(), given.end(), is_cpu_float)) {
    return projections_backward_of_aten(given, x, weights, wants_x, wants_biases);
  }
  Tensors held;  // An expanded gradient has strides of 0.
  std::vector<Matrix> gradients;
  for (const at::Tensor& each : given) {
    held.push_back(matrix_view(each) ? each : each.contiguous());
    gradients.push_back(*matrix_of(held.back()));
  }
  std::tuple<at::Tensor, Tensors, Tensors> result;
  auto& [of_x, of_weights, of_biases] = result;
  of_x = wants_x ? gradient_of_x(gradients, x, weights) : empty_float({0});
  const Matrix transposed = matrix_of(x)->transposed();
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Matrix& g = gradients[i];
    auto own = own_product(transposed, g);
    of_weights.push_back(own ? *std::move(own) : at::mm(x.t(), held[i]));
    if (wants_biases) of_biases.push_back(column_sums(held[i], g));
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def("projections(Tensor x, Tensor[] weights, Tensor[] biases) -> Tensor[]");
  library.def(
      "projections_backward(Tensor[] gradients, Tensor x, Tensor[] weights, bool wants_x,"
      " bool wants_biases) -> (Tensor, Tensor[], Tensor[])");
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("projections", projections_of_aten);
  library.impl("projections_backward", projections_backward_of_aten);
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("projections", projections_cpu);
  library.impl("projections_backward", projections_backward_cpu);
}

/// Gradients of x, the weights and the biases, in this order.
struct ProjectionsBackward final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& given) override {
    const at::Tensor x_value = x.unpack();
    Tensors values;
    Tensors gradients;
    for (size_t i = 0; i < weights.size(); ++i) {
      values.push_back(weights[i].unpack());
      gradients.push_back(given[i].defined()
                              ? given[i]
                              : at::zeros({x_value.size(0), values[i].size(1)}, x_value.options()));
    }
    const bool wants_x = task_should_compute_output(0);
    std::tuple<at::Tensor, Tensors, Tensors> result;
    // With a graph of the gradients they may be differentiated again.
    if (at::GradMode::is_enabled()) {
      result = projections_backward_of_aten(gradients, x_value, values, wants_x, has_biases);
    } else {
      const at::AutoDispatchBelowADInplaceOrView below;
      static const auto backward =
          find_operator<decltype(projections_backward_cpu)>("strata::projections_backward");
      result = backward.call(gradients, x_value, values, wants_x, has_biases);
    }
    auto& [of_x, of_weights, of_biases] = result;
    torch::autograd::variable_list results;
    results.push_back(wants_x ? std::move(of_x) : at::Tensor());
    for (Tensors* each : {&of_weights, &of_biases}) {
      results.insert(results.end(), each->begin(), each->end());
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!task_should_compute_output(i)) results[i] = at::Tensor();
    }
    return results;
  }
  void release_variables() override {
    x.reset_data();
    for (auto& each : weights) each.reset_data();
  }
  std::string name() const override { return "ProjectionsBackward"; }

  torch::autograd::SavedVariable x;
  std::vector<torch::autograd::SavedVariable> weights;
  bool has_biases = false;
};

Tensors projections_with_node(c10::DispatchKeySet keys, const at::Tensor& x, at::TensorList weights,
                              at::TensorList biases) {
  bool is_dual = x._fw_grad(0).defined();
  bool wanted = x.requires_grad();
  for (const at::TensorList list : {weights, biases}) {
    for (const at::Tensor& each : list) {
      is_dual = is_dual || each._fw_grad(0).defined();
      wanted = wanted || each.requires_grad();
    }
  }
  if (is_dual) return projections_of_aten(x, weights, biases);
  Tensors outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto forward = find_operator<decltype(projections_cpu)>("strata::projections");
    outputs = forward.redispatch(keys & c10::after_autograd_keyset, x, weights, biases);
  }
  if (!at::GradMode::is_enabled() || !wanted) return outputs;
  const auto node = make_node<ProjectionsBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(x, weights, biases));
  node->x = torch::autograd::SavedVariable(x, /*is_output=*/false);
  for (const at::Tensor& each : weights) {
    node->weights.emplace_back(each, /*is_output=*/false);
  }
  node->has_biases = !biases.empty();
  torch::autograd::set_history(outputs, node);
  return outputs;
}

TORCH_LIBRARY_IMPL(strata, Autograd, library) {
  library.impl("projections", TORCH_FN(projections_with_node));
}

}  // namespace

std::optional<std::vector<at::Tensor>> projections(const at::Tensor& x,
                                                   const std::vector<at::Tensor>& weights,
                                                   const std::vector<at::Tensor>& biases) {
  if (!are_projections(x, weights, biases)) return std::nullopt;
  static const auto forward = find_operator<decltype(projections_cpu)>("strata::projections");
  return forward.call(x, weights, biases);
}

}  // namespace strata::kernels
