// The operators of LSTM and GRU cells that only GPUs have, on the bytes of an emulated one.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "gpu/emulated/operators.h"

namespace strata::test::emulated_gpu {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
  return given(bias) ? on_host(gates) + on_host(*bias) : on_host(gates);
}

/// The workspace holds the gates after their activations.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
  const Launch launch("lstm_cell", cx.device(), {input_gates, hidden_gates, cx});
  const auto gates =
      (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(),
               out = gates[3].sigmoid();
  const Tensor cy = forget * on_host(cx) + in * cell;
  const Tensor hy = out * cy.tanh();
  return {launch.on_device(hy), launch.on_device(cy),
          launch.on_device(at::cat({in, forget, cell, out}, 1))};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  const Launch launch("lstm_cell_backward", cx.device(),
                      {grad_hy.value_or(Tensor()), grad_cy.value_or(Tensor()), cx, cy, workspace});
  const auto gates = on_host(workspace).chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const Tensor squashed = on_host(cy).tanh();
  const Tensor of_h = given(grad_hy) ? on_host(*grad_hy) : at::zeros_like(squashed);
  Tensor of_c = of_h * out * (1 - squashed * squashed);
  if (given(grad_cy)) of_c = of_c + on_host(*grad_cy);
  const Tensor of_gates =
      at::cat({of_c * cell * in * (1 - in), of_c * on_host(cx) * forget * (1 - forget),
               of_c * in * (1 - cell * cell), of_h * squashed * out * (1 - out)},
              1);
  return {launch.on_device(of_gates), launch.on_device(of_c * forget),
          has_bias ? launch.on_device(of_gates.sum(0)) : Tensor()};
}

/// The workspace holds the activated gates, the old state, and the new gate's hidden part.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
  const Launch launch("gru_cell", hx.device(), {input_gates, hidden_gates, hx});
  const auto of_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto of_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (of_input[0] + of_hidden[0]).sigmoid();
  const Tensor update = (of_input[1] + of_hidden[1]).sigmoid();
  const Tensor fresh = (of_input[2] + reset * of_hidden[2]).tanh();
  const Tensor old = on_host(hx);
  return {launch.on_device(fresh + update * (old - fresh)),
          launch.on_device(at::cat({reset, update, fresh, old, of_hidden[2]}, 1))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  const Launch launch("gru_cell_backward", grad_hy.device(), {grad_hy, workspace});
  const auto parts = on_host(workspace).chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &old = parts[3];
  const Tensor of_h = on_host(grad_hy);
  const Tensor of_update = of_h * (old - fresh) * update * (1 - update);
  const Tensor of_fresh = of_h * (1 - update) * (1 - fresh * fresh);
  const Tensor of_reset = of_fresh * parts[4] * reset * (1 - reset);
  const Tensor of_input = at::cat({of_reset, of_update, of_fresh}, 1);
  const Tensor of_hidden = at::cat({of_reset, of_update, of_fresh * reset}, 1);
  return {launch.on_device(of_input), launch.on_device(of_hidden), launch.on_device(of_h * update),
          has_bias ? launch.on_device(of_input.sum(0)) : Tensor(),
          has_bias ? launch.on_device(of_hidden.sum(0)) : Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_thnn_fused_lstm_cell", lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  library.impl("_thnn_fused_gru_cell", gru_cell);
  library.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace strata::test::emulated_gpu
