#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace strata::kernels {

/// Which rows of the batch each step has. Rows that a step leaves out keep their state and cost
/// nothing.
struct SequenceSteps {
  /// [rows of all steps] the batch's row of each; undefined: a step's i-th is the batch's i-th.
  at::Tensor rows;
  std::vector<int64_t> sizes;  ///< Of each step.
  /// [rows of all steps] rows of x with equal numbers are equal, as those of an embedding: they are
  /// multiplied once, and the first of them gets the gradient of all. Undefined: none is known to be.
  at::Tensor words = {};
};

struct LstmResult {
  at::Tensor y;  ///< `[rows of all steps, units]`
  at::Tensor h;  ///< `[batch, units]` the last states.
  at::Tensor c;
};

/// An LSTM over all steps, differentiable, twice too. Gates are i, f, g, o.
/// @param x  `[rows of all steps, in]`, one step behind the other.
/// @param kernel  `[in, 4 * units]`; `recurrent` is `[units, 4 * units]`, `bias` `[4 * units]` or
///                undefined.
/// @return Nothing where these kernels do not apply: other than float on the CPU, empty, or a
///         processor without fused multiply-add.
/// Bits depend neither on the number of threads, nor on the other rows of the batch but for those
/// of the weights' gradients, nor on the instruction set.
std::optional<LstmResult> lstm(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                               const at::Tensor& kernel, const at::Tensor& recurrent,
                               const at::Tensor& bias, const SequenceSteps& steps);

struct GruResult {
  at::Tensor y;
  at::Tensor h;
};

/// A GRU whose reset gate takes effect behind the product (Keras's reset_after), likewise. Gates
/// are z, r and the candidate; with `reset_first` r, z and the candidate (libtorch's order).
std::optional<GruResult> gru(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
                             const at::Tensor& recurrent, const at::Tensor& bias,
                             const at::Tensor& recurrent_bias, const SequenceSteps& steps,
                             bool reset_first);

}  // namespace strata::kernels
