#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "kernels/optional_tensor.h"

namespace strata::kernels {

/// What strata::lstm and strata::gru compute, in operators of libtorch's: it serves other devices
/// and dtypes, and shapes alone, and can be differentiated.
///
/// Sequences are rows of all steps, one step behind the other: `x` is [rows, in], step t has
/// sizes[t] rows. `rows` names the batch's row of each; undefined: a step's i-th is the batch's i-th.
/// Rows that a step does not name keep their state. Results that begin with the batch's first
/// states are [batch + rows, units]. Rows of `x` with equal `words` are equal: this saves work, and
/// nothing here depends on it.
namespace decomposed {

using Tensors4 = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Tensors5 = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// @param kernel  [in, 4 * units]: i, f, g, o.
/// @return {states, cells, gates, last h, last c}
Tensors5 lstm(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
              const at::Tensor& kernel, const at::Tensor& recurrent, const OptionalTensor& bias,
              const OptionalTensor& rows, at::IntArrayRef sizes, const OptionalTensor& words = {});

/// @return {of the sums of the gates, of h, of c, of `recurrent`}
Tensors4 lstm_backward(const OptionalTensor& dy, const OptionalTensor& dh, const OptionalTensor& dc,
                       const at::Tensor& states, const at::Tensor& cells, const at::Tensor& gates,
                       const at::Tensor& recurrent, const OptionalTensor& rows,
                       at::IntArrayRef sizes, bool wants_first);

/// Keras's reset_after.
/// @param kernel  [in, 3 * units]: z, r, candidate; r before z with `reset_first`.
/// @return {states, gates, the state's part of the candidate, last h}
Tensors4 gru(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
             const at::Tensor& recurrent, const OptionalTensor& bias,
             const OptionalTensor& recurrent_bias, const OptionalTensor& rows,
             at::IntArrayRef sizes, bool reset_first, const OptionalTensor& words = {});

/// @return {of the inputs' part of the sums, of h, of `recurrent`, of its bias}
Tensors4 gru_backward(const OptionalTensor& dy, const OptionalTensor& dh, const at::Tensor& states,
                      const at::Tensor& gates, const at::Tensor& inner, const at::Tensor& recurrent,
                      const OptionalTensor& rows, at::IntArrayRef sizes, bool reset_first,
                      bool wants_first);

}  // namespace decomposed

/// The operators of libtorch's dispatcher of these names.
decomposed::Tensors5 call_lstm(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                               const at::Tensor& kernel, const at::Tensor& recurrent,
                               const std::optional<at::Tensor>& bias,
                               const std::optional<at::Tensor>& rows, at::IntArrayRef sizes,
                               const std::optional<at::Tensor>& words = {});
decomposed::Tensors4 call_lstm_backward(const std::optional<at::Tensor>& dy,
                                        const std::optional<at::Tensor>& dh,
                                        const std::optional<at::Tensor>& dc,
                                        const at::Tensor& states, const at::Tensor& cells,
                                        const at::Tensor& gates, const at::Tensor& recurrent,
                                        const std::optional<at::Tensor>& rows,
                                        at::IntArrayRef sizes, bool wants_first);
decomposed::Tensors4 call_gru(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
                              const at::Tensor& recurrent, const std::optional<at::Tensor>& bias,
                              const std::optional<at::Tensor>& recurrent_bias,
                              const std::optional<at::Tensor>& rows, at::IntArrayRef sizes,
                              bool reset_first, const std::optional<at::Tensor>& words = {});
decomposed::Tensors4 call_gru_backward(const std::optional<at::Tensor>& dy,
                                       const std::optional<at::Tensor>& dh,
                                       const at::Tensor& states, const at::Tensor& gates,
                                       const at::Tensor& inner, const at::Tensor& recurrent,
                                       const std::optional<at::Tensor>& rows, at::IntArrayRef sizes,
                                       bool reset_first, bool wants_first);

}  // namespace strata::kernels
