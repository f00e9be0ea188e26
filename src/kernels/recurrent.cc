#include "kernels/recurrent.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <tuple>
#include <utility>

#include "core/cpu_isa.h"
#include "kernels/autograd_node.h"
#include "kernels/find_operator.h"
#include "kernels/optional_tensor.h"
#include "kernels/portable/portable_bits.h"
#include "kernels/products.h"
#include "kernels/recurrent_operators.h"
#include "kernels/recurrent_words.h"

namespace strata::kernels {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

bool all_float(const variable_list& tensors) {
  for (const at::Tensor& each : tensors) {
    if (each.defined() && !is_cpu_float(each)) return false;
  }
  return true;
}

/// A node of recurrent layers, for what is alike: x, h, kernel, recurrent and bias come first.
struct RecurrentNode : Node {
  enum Input { kX, kH, kKernel, kRecurrent, kBias, kOther, kInputs };

  void save(const at::Tensor& x_value, const at::Tensor& h_value, const at::Tensor& kernel_value,
            const at::Tensor& recurrent_value, const at::Tensor& bias_value,
            const SequenceSteps& sequence) {
    x = SavedVariable(x_value, /*is_output=*/false);
    h = SavedVariable(h_value, false);
    kernel = SavedVariable(kernel_value, false);
    recurrent = SavedVariable(recurrent_value, false);
    if (bias_value.defined()) bias = SavedVariable(bias_value, false);
    has_bias = bias_value.defined();
    rows = if_defined(sequence.rows);
    words = sequence.words;
    sizes = sequence.sizes;
  }

  void release_variables() override {
    for (SavedVariable* each : {&x, &h, &kernel, &recurrent, &bias, &y}) each->reset_data();
    for (at::Tensor* each : {&states, &gates}) each->reset();
    rows.reset();
    words.reset();
  }

  /// Of the inputs' weights and of x, from those of their sums.
  void inputs_gradients(const at::Tensor& dsums, const at::Tensor& x_value,
                        const at::Tensor& kernel_value, variable_list& results) {
    const bool wants_x = task_should_compute_output(kX);
    const bool wants_kernel = task_should_compute_output(kKernel);
    const bool wants_bias = has_bias && task_should_compute_output(kBias);
    if (at::GradMode::is_enabled()) {
      if (wants_x) results[kX] = at::mm(dsums, kernel_value.t());
      if (wants_kernel) results[kKernel] = at::mm(x_value.t(), dsums);
      if (wants_bias) results[kBias] = dsums.sum(0);
      return;
    }
    using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
        const at::Tensor&, const OptionalTensor&, const OptionalTensor&, bool, bool);
    static const auto backward = find_operator<Backward>("strata::addmm_backward");
    const bool by_columns = kernel_value.stride(0) == 1 && kernel_value.stride(1) != 1;
    const auto x_if = wants_kernel ? OptionalTensor(x_value) : std::nullopt;
    const auto kernel_if = wants_x ? OptionalTensor(kernel_value) : std::nullopt;
    std::tie(results[kBias], results[kX], results[kKernel]) =
        words.defined()
            ? call_recurrent_inputs_backward(dsums, x_if, kernel_if, words, by_columns, wants_bias)
            : backward.call(dsums, x_if, kernel_if, by_columns, wants_bias);
  }

  SavedVariable x, h, kernel, recurrent, bias;
  SavedVariable y;  // It and `states` are the same memory: it must not have changed.
  at::Tensor states;
  at::Tensor gates;
  OptionalTensor rows;
  at::Tensor words;
  std::vector<int64_t> sizes;
  bool has_bias = false;
};

struct LstmNode final : RecurrentNode {
  variable_list apply(variable_list&& gradients) override {
    variable_list results(kInputs);
    const auto dy = if_defined(gradients[0]);
    const auto dh = if_defined(gradients[1]);
    const auto dc = if_defined(gradients[2]);
    if (!dy && !dh && !dc) return results;
    const at::Tensor x_value = x.unpack();
    const at::Tensor kernel_value = kernel.unpack();
    const at::Tensor recurrent_value = recurrent.unpack();
    y.unpack(pointer_to(*this));
    const bool wants_first = task_should_compute_output(kH);
    at::Tensor dgates;
    // With a graph of the gradients they may be differentiated again: all steps anew, in operators
    // of libtorch's.
    if (at::GradMode::is_enabled() || !all_float(gradients)) {
      const auto again = decomposed::lstm(x_value, h.unpack(), c.unpack(), kernel_value,
                                          recurrent_value, if_defined(bias.unpack()), rows, sizes);
      std::tie(dgates, results[kH], results[kOther], results[kRecurrent]) =
          decomposed::lstm_backward(dy, dh, dc, std::get<0>(again), std::get<1>(again),
                                    std::get<2>(again), recurrent_value, rows, sizes, wants_first);
      inputs_gradients(dgates, x_value, kernel_value, results);
      return results;
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    std::tie(dgates, results[kH], results[kOther], results[kRecurrent]) = call_lstm_backward(
        dy, dh, dc, states, cells, gates, recurrent_value, rows, sizes, wants_first);
    if (!wants_first) results[kH] = at::Tensor();
    inputs_gradients(dgates, x_value, kernel_value, results);
    return results;
  }
  void release_variables() override {
    RecurrentNode::release_variables();
    c.reset_data();
    cells.reset();
  }
  std::string name() const override { return "LstmBackward"; }

  SavedVariable c;
  at::Tensor cells;
};

struct GruNode final : RecurrentNode {
  variable_list apply(variable_list&& gradients) override {
    variable_list results(kInputs);
    const auto dy = if_defined(gradients[0]);
    const auto dh = if_defined(gradients[1]);
    if (!dy && !dh) return results;
    const at::Tensor x_value = x.unpack();
    const at::Tensor kernel_value = kernel.unpack();
    const at::Tensor recurrent_value = recurrent.unpack();
    y.unpack(pointer_to(*this));
    const bool wants_first = task_should_compute_output(kH);
    at::Tensor dinputs, dbias;
    if (at::GradMode::is_enabled() || !all_float(gradients)) {
      const auto again = decomposed::gru(
          x_value, h.unpack(), kernel_value, recurrent_value, if_defined(bias.unpack()),
          if_defined(recurrent_bias.unpack()), rows, sizes, reset_first);
      std::tie(dinputs, results[kH], results[kRecurrent], dbias) = decomposed::gru_backward(
          dy, dh, std::get<0>(again), std::get<1>(again), std::get<2>(again), recurrent_value, rows,
          sizes, reset_first, wants_first);
    } else {
      const at::AutoDispatchBelowADInplaceOrView below;
      std::tie(dinputs, results[kH], results[kRecurrent], dbias) = call_gru_backward(
          dy, dh, states, gates, inner, recurrent_value, rows, sizes, reset_first, wants_first);
      if (!wants_first) results[kH] = at::Tensor();
    }
    if (has_recurrent_bias) results[kOther] = std::move(dbias);
    inputs_gradients(dinputs, x_value, kernel_value, results);
    return results;
  }
  void release_variables() override {
    RecurrentNode::release_variables();
    recurrent_bias.reset_data();
    inner.reset();
  }
  std::string name() const override { return "GruBackward"; }

  SavedVariable recurrent_bias;
  at::Tensor inner;
  bool has_recurrent_bias = false;
  bool reset_first = false;
};

bool is_plain_matrix(const at::Tensor& tensor, int64_t rows, int64_t columns) {
  return tensor.defined() && is_cpu_float(tensor) && tensor.dim() == 2 && tensor.size(0) == rows &&
         tensor.size(1) == columns && !tensor._fw_grad(0).defined();
}

/// Sizes that do not fit one another are left to libtorch, which says so.
bool recurrent_applies(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
                       const at::Tensor& recurrent, const at::Tensor& bias,
                       const at::Tensor& recurrent_bias, int64_t gates) {
  const KernelClass of = gates == 4 ? KernelClass::kLstm : KernelClass::kGru;
  if (!runs_here(of)) return false;
  if (!x.defined() || x.dim() != 2 || !h.defined() || h.dim() != 2 || x.numel() == 0 ||
      h.numel() == 0)
    return false;
  const int64_t columns = gates * h.size(1);
  const auto fits = [&](const at::Tensor& each) {
    return !each.defined() || (is_cpu_float(each) && each.dim() == 1 && each.size(0) == columns &&
                               !each._fw_grad(0).defined());
  };
  return is_plain_matrix(x, x.size(0), x.size(1)) && is_plain_matrix(h, h.size(0), h.size(1)) &&
         is_plain_matrix(kernel, x.size(1), columns) &&
         is_plain_matrix(recurrent, h.size(1), columns) && fits(bias) && fits(recurrent_bias);
}

at::Tensor rows_of_states(const at::Tensor& states, int64_t batch) {
  return states.narrow(0, batch, states.size(0) - batch);
}

}  // namespace

std::optional<LstmResult> lstm(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                               const at::Tensor& kernel, const at::Tensor& recurrent,
                               const at::Tensor& bias, const SequenceSteps& steps) {
  if (!recurrent_applies(x, h, kernel, recurrent, bias, {}, 4) ||
      !is_plain_matrix(c, h.size(0), h.size(1)))
    return std::nullopt;
  LstmResult result;
  at::Tensor states, cells, gates;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    std::tie(states, cells, gates, result.h, result.c) =
        call_lstm(x, h, c, kernel, recurrent, if_defined(bias), if_defined(steps.rows), steps.sizes,
                  if_defined(steps.words));
    result.y = rows_of_states(states, h.size(0));
  }
  if (!wants_graph(x, h, c, kernel, recurrent, bias)) return result;
  const auto node = make_node<LstmNode>();
  node->set_next_edges(torch::autograd::collect_next_edges(x, h, kernel, recurrent, bias, c));
  node->save(x, h, kernel, recurrent, bias, steps);
  node->c = SavedVariable(c, /*is_output=*/false);
  node->cells = std::move(cells);
  node->gates = std::move(gates);
  torch::autograd::set_history({result.y, result.h, result.c}, node);
  node->states = std::move(states);
  node->y = SavedVariable(result.y, /*is_output=*/true);
  return result;
}

std::optional<GruResult> gru(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
                             const at::Tensor& recurrent, const at::Tensor& bias,
                             const at::Tensor& recurrent_bias, const SequenceSteps& steps,
                             bool reset_first) {
  if (!recurrent_applies(x, h, kernel, recurrent, bias, recurrent_bias, 3)) return std::nullopt;
  GruResult result;
  at::Tensor states, gates, inner;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    std::tie(states, gates, inner, result.h) =
        call_gru(x, h, kernel, recurrent, if_defined(bias), if_defined(recurrent_bias),
                 if_defined(steps.rows), steps.sizes, reset_first, if_defined(steps.words));
    result.y = rows_of_states(states, h.size(0));
  }
  if (!wants_graph(x, h, kernel, recurrent, bias, recurrent_bias)) return result;
  const auto node = make_node<GruNode>();
  node->set_next_edges(
      torch::autograd::collect_next_edges(x, h, kernel, recurrent, bias, recurrent_bias));
  node->save(x, h, kernel, recurrent, bias, steps);
  if (recurrent_bias.defined()) node->recurrent_bias = SavedVariable(recurrent_bias, false);
  node->has_recurrent_bias = recurrent_bias.defined();
  node->reset_first = reset_first;
  node->gates = std::move(gates);
  node->inner = std::move(inner);
  torch::autograd::set_history({result.y, result.h}, node);
  node->states = std::move(states);
  node->y = SavedVariable(result.y, /*is_output=*/true);
  return result;
}

}  // namespace strata::kernels
