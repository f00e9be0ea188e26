#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "kernels/optional_tensor.h"

namespace strata::kernels {

/// The rows of a recurrent layer's inputs of which equal ones are known (SequenceSteps::words). A
/// product with a matrix gives equal rows again, and that with a sum of gradients is the sum of the
/// products: so the layer multiplies as many rows as there are words, not as there are steps.
class DistinctRows {
 public:
  /// @param words  `[rows]`, int64: rows with equal numbers are equal.
  /// @throws Error kInvalidArgument: something else.
  DistinctRows(const OptionalTensor& words, int64_t rows);

  int64_t count() const { return static_cast<int64_t>(firsts_.size()); }
  /// Of each row, which of the distinct ones it is; these are in the order in which they come.
  const int64_t* places() const { return places_.data(); }
  /// Whether products that are smaller by so much are worth copies and sums of rows. Products of
  /// fewer than four rows are libtorch's, with other bits.
  bool worthwhile() const { return known_ && count() >= 4 && 4 * count() <= 3 * rows_; }

  /// `[count, width]` of `[rows, width]`: the first of each.
  at::Tensor gathered(const at::Tensor& x) const;
  /// `[count, width]` of `[rows, width]`: the sums of equal rows, in their order.
  at::Tensor summed(const at::Tensor& gradient) const;
  /// `[rows, width]` of `[count, width]`: at the first of each; zeros at the others.
  at::Tensor scattered(const at::Tensor& distinct) const;

 private:
  bool known_;
  int64_t rows_;
  std::vector<int64_t> places_;
  std::vector<int64_t> firsts_;
};

using InputsGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The operator strata::recurrent_inputs_backward: gradients of a recurrent layer's bias, x and
/// kernel from those of its sums, x as in strata::addmm_backward but for `words`.
/// @param x  Undefined: the kernel's gradient is not wanted; `kernel` likewise for x's.
InputsGradients call_recurrent_inputs_backward(const at::Tensor& gradient, const OptionalTensor& x,
                                               const OptionalTensor& kernel,
                                               const at::Tensor& words, bool by_columns,
                                               bool wants_bias);

namespace decomposed {

/// The same in libtorch's operators.
InputsGradients recurrent_inputs_backward(const at::Tensor& gradient, const OptionalTensor& x,
                                          const OptionalTensor& kernel, const at::Tensor& words,
                                          bool by_columns, bool wants_bias);

}  // namespace decomposed
}  // namespace strata::kernels
