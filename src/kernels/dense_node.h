#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <tuple>

#include "kernels/optional_tensor.h"

namespace strata::kernels {

/// Of bias + a b: the gradients of bias, a and b; undefined: not wanted.
using DenseGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The node of a graph behind bias + a b, whose dtypes a derived class knows.
class DenseNode : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (!gradients[0].defined()) return torch::autograd::variable_list(3);
    const bool wants_bias = task_should_compute_output(0);
    OptionalTensor a, b;
    if (task_should_compute_output(1)) b = b_.unpack();
    if (task_should_compute_output(2)) a = a_.unpack();
    auto [of_bias, of_a, of_b] = gradients_of(gradients[0], a, b, wants_bias);
    return {std::move(of_bias), std::move(of_a), std::move(of_b)};
  }
  void release_variables() override {
    a_.reset_data();
    b_.reset_data();
  }

  /// Keeps what the gradients need. Its next edges are those of bias, a and b.
  void save(const at::Tensor& a, const at::Tensor& b) {
    if (a.requires_grad()) b_ = torch::autograd::SavedVariable(b, /*is_output=*/false);
    if (b.requires_grad()) a_ = torch::autograd::SavedVariable(a, /*is_output=*/false);
    b_by_columns_ = b.stride(0) == 1 && b.stride(1) != 1;
  }

 protected:
  /// @param a  Given if the gradient of b is wanted, and `b` if that of a is.
  virtual DenseGradients gradients_of(const at::Tensor& gradient, const OptionalTensor& a,
                                      const OptionalTensor& b, bool wants_bias) = 0;

  /// Whether b's columns lie side by side, as a layer's transposed weights do.
  bool b_by_columns() const { return b_by_columns_; }

 private:
  torch::autograd::SavedVariable a_;
  torch::autograd::SavedVariable b_;
  bool b_by_columns_ = false;
};

/// Whether bias + a b has a node of its own here.
/// @param is_operand  Of a tensor: its device, layout and dtype are those of the node.
template <typename IsOperand>
bool is_dense_layer(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                    const IsOperand& is_operand) {
  const auto fits = [&](const at::Tensor& tensor, int64_t dim) {
    return is_operand(tensor) && tensor.dim() == dim && !tensor._fw_grad(0).defined();
  };
  return fits(bias, 1) && fits(a, 2) && fits(b, 2) && a.size(1) == b.size(0) &&
         bias.size(0) == b.size(1);
}

}  // namespace strata::kernels
