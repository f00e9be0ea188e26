// torch::nn::LSTM, GRU and their cells in replica functions: layers and directions of strata::lstm
// and strata::gru. Elsewhere, and where those do not apply, libtorch's.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gru_cell_native.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_cell_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels/dispatch_key.h"
#include "kernels/optional_tensor.h"
#include "kernels/products.h"
#include "kernels/recurrent.h"
#include "kernels/registration.h"

namespace strata::kernels {
namespace {

/// Cells of a smaller batch are not worth packing the weights for.
constexpr int64_t kMinCellBatch = 4;

/// What a layer's call has besides its sequences.
struct Stack {
  at::TensorList params;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train;
  bool both_ways;

  int64_t ways() const { return both_ways ? 2 : 1; }
  int64_t params_each() const { return has_biases ? 4 : 2; }
  /// No projections, float, and as many weights as that takes.
  bool is_plain(const at::Tensor& h, int64_t gates) const {
    if (h.dim() != 3 || h.size(0) != layers * ways() ||
        static_cast<int64_t>(params.size()) != layers * ways() * params_each())
      return false;
    return std::all_of(params.begin(), params.end(), [&](const at::Tensor& each) {
      return is_cpu_float(each) && (each.dim() == 1 || each.dim() == 2) &&
             each.size(0) == gates * h.size(2);
    });
  }
};

struct StackResult {
  at::Tensor y;  ///< [rows of all steps, ways * units]
  at::Tensor h;  ///< [layers * ways, batch, units]
  at::Tensor c;
};

/// One layer in one direction.
std::optional<LstmResult> one_way(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                                  at::TensorList weights, const SequenceSteps& steps) {
  const bool biases = weights.size() == 4;
  if (c.defined()) {
    return lstm(x, h, c, weights[0].t(), weights[1].t(),
                biases ? weights[2] + weights[3] : at::Tensor(), steps);
  }
  auto result = gru(x, h, weights[0].t(), weights[1].t(), biases ? weights[2] : at::Tensor(),
                    biases ? weights[3] : at::Tensor(), steps, /*reset_first=*/true);
  if (!result) return std::nullopt;
  return LstmResult{std::move(result->y), std::move(result->h), {}};
}

/// The rows from the last step to the first. Its own inverse if all steps have as many rows.
at::Tensor turned_rows(const std::vector<int64_t>& sizes, int64_t total) {
  std::vector<at::Tensor> parts;
  int64_t end = total;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    parts.push_back(at::arange(end - *size, end));
    end -= *size;
  }
  return at::cat(parts);
}

std::optional<StackResult> run_stack(at::Tensor x, const at::Tensor& h, const at::Tensor& c,
                                     const Stack& stack, const SequenceSteps& steps) {
  SequenceSteps turned_steps{{}, {steps.sizes.rbegin(), steps.sizes.rend()}};
  at::Tensor there, back;
  if (stack.both_ways) {
    there = turned_rows(steps.sizes, x.size(0));
    back = there.argsort();
  }
  std::vector<at::Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < stack.layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t way = 0; way < stack.ways(); ++way) {
      const int64_t place = layer * stack.ways() + way;
      const auto each = static_cast<size_t>(stack.params_each());
      const auto weights = stack.params.slice(static_cast<size_t>(place) * each, each);
      const at::Tensor c_first = c.defined() ? c.select(0, place) : at::Tensor();
      auto result = one_way(way == 0 ? x : x.index_select(0, there), h.select(0, place), c_first,
                            weights, way == 0 ? steps : turned_steps);
      if (!result) return std::nullopt;
      outputs.push_back(way == 0 ? result->y : result->y.index_select(0, back));
      last_h.push_back(result->h);
      if (c.defined()) last_c.push_back(result->c);
    }
    x = outputs.size() == 1 ? outputs[0] : at::cat(outputs, 1);
    if (stack.dropout > 0 && stack.train && layer + 1 < stack.layers) {
      x = at::dropout(x, stack.dropout, /*train=*/true);
    }
  }
  return StackResult{x, at::stack(last_h), c.defined() ? at::stack(last_c) : at::Tensor()};
}

/// All sequences of one length; y is as x is.
std::optional<StackResult> of_batch(c10::DispatchKeySet keys, const at::Tensor& input,
                                    const at::Tensor& h, const at::Tensor& c, const Stack& stack,
                                    bool batch_first) {
  if (!keys.has(kReplicaKey) || !is_cpu_float(input) || input.dim() != 3 || input.numel() == 0 ||
      !stack.is_plain(h, c.defined() ? 4 : 3))
    return std::nullopt;
  const at::Tensor x = batch_first ? input.transpose(0, 1) : input;
  const int64_t time = x.size(0);
  const int64_t batch = x.size(1);
  if (h.size(1) != batch) return std::nullopt;
  SequenceSteps steps;
  steps.sizes.assign(static_cast<size_t>(time), batch);
  auto result = run_stack(x.reshape({time * batch, x.size(2)}), h, c, stack, steps);
  if (!result) return std::nullopt;
  result->y = result->y.view({time, batch, -1});
  if (batch_first) result->y = result->y.transpose(0, 1);
  return result;
}

/// Of a packed sequence.
std::optional<StackResult> of_packed(c10::DispatchKeySet keys, const at::Tensor& data,
                                     const at::Tensor& batch_sizes, const at::Tensor& h,
                                     const at::Tensor& c, const Stack& stack) {
  if (!keys.has(kReplicaKey) || !is_cpu_float(data) || data.dim() != 2 || data.numel() == 0 ||
      !batch_sizes.is_cpu() || batch_sizes.scalar_type() != at::kLong || batch_sizes.dim() != 1 ||
      !stack.is_plain(h, c.defined() ? 4 : 3))
    return std::nullopt;
  const at::Tensor sizes = batch_sizes.contiguous();
  const int64_t* const first = sizes.const_data_ptr<int64_t>();
  const SequenceSteps steps{{}, {first, first + sizes.numel()}};
  return run_stack(data, h, c, stack, steps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_input(c10::DispatchKeySet keys,
                                                          const at::Tensor& input,
                                                          at::TensorList hx, at::TensorList params,
                                                          bool has_biases, int64_t num_layers,
                                                          double dropout, bool train,
                                                          bool bidirectional, bool batch_first) {
  if (hx.size() == 2) {
    const Stack stack{params, has_biases, num_layers, dropout, train, bidirectional};
    if (auto own = of_batch(keys, input, hx[0], hx[1], stack, batch_first))
      return {own->y, own->h, own->c};
  }
  return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                          batch_first);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_data(
    c10::DispatchKeySet keys, const at::Tensor& data, const at::Tensor& batch_sizes,
    at::TensorList hx, at::TensorList params, bool has_biases, int64_t num_layers, double dropout,
    bool train, bool bidirectional) {
  if (hx.size() == 2) {
    const Stack stack{params, has_biases, num_layers, dropout, train, bidirectional};
    if (auto own = of_packed(keys, data, batch_sizes, hx[0], hx[1], stack))
      return {own->y, own->h, own->c};
  }
  return at::native::lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
                          bidirectional);
}

std::tuple<at::Tensor, at::Tensor> gru_input(c10::DispatchKeySet keys, const at::Tensor& input,
                                             const at::Tensor& hx, at::TensorList params,
                                             bool has_biases, int64_t num_layers, double dropout,
                                             bool train, bool bidirectional, bool batch_first) {
  const Stack stack{params, has_biases, num_layers, dropout, train, bidirectional};
  if (auto own = of_batch(keys, input, hx, {}, stack, batch_first)) return {own->y, own->h};
  return at::native::gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                         batch_first);
}

std::tuple<at::Tensor, at::Tensor> gru_data(c10::DispatchKeySet keys, const at::Tensor& data,
                                            const at::Tensor& batch_sizes, const at::Tensor& hx,
                                            at::TensorList params, bool has_biases,
                                            int64_t num_layers, double dropout, bool train,
                                            bool bidirectional) {
  const Stack stack{params, has_biases, num_layers, dropout, train, bidirectional};
  if (auto own = of_packed(keys, data, batch_sizes, hx, {}, stack)) return {own->y, own->h};
  return at::native::gru(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
                         bidirectional);
}

/// One step.
std::optional<LstmResult> cell(c10::DispatchKeySet keys, const at::Tensor& input,
                               const at::Tensor& h, const at::Tensor& c, const at::Tensor& w_ih,
                               const at::Tensor& w_hh, const OptionalTensor& b_ih,
                               const OptionalTensor& b_hh) {
  const bool biases = b_ih && b_ih->defined() && b_hh && b_hh->defined();
  if (!keys.has(kReplicaKey) || input.dim() != 2 || h.dim() != 2 || w_ih.dim() != 2 ||
      w_hh.dim() != 2 || h.size(0) != input.size(0) || input.size(0) < kMinCellBatch ||
      (!biases && ((b_ih && b_ih->defined()) || (b_hh && b_hh->defined()))))
    return std::nullopt;
  std::vector<at::Tensor> weights{w_ih, w_hh};
  if (biases) {
    if (b_ih->sizes() != b_hh->sizes()) return std::nullopt;
    weights.insert(weights.end(), {*b_ih, *b_hh});
  }
  return one_way(input, h, c, weights, {{}, {input.size(0)}});
}

std::tuple<at::Tensor, at::Tensor> lstm_cell(c10::DispatchKeySet keys, const at::Tensor& input,
                                             at::TensorList hx, const at::Tensor& w_ih,
                                             const at::Tensor& w_hh, const OptionalTensor& b_ih,
                                             const OptionalTensor& b_hh) {
  if (hx.size() == 2) {
    if (auto own = cell(keys, input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh)) return {own->h, own->c};
  }
  return at::native::lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh);
}

at::Tensor gru_cell(c10::DispatchKeySet keys, const at::Tensor& input, const at::Tensor& hx,
                    const at::Tensor& w_ih, const at::Tensor& w_hh, const OptionalTensor& b_ih,
                    const OptionalTensor& b_hh) {
  if (auto own = cell(keys, input, hx, {}, w_ih, w_hh, b_ih, b_hh)) return own->h;
  return at::native::gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh);
}

}  // namespace

void register_recurrent(torch::Library& library) {
  library.impl("lstm.input", TORCH_FN(lstm_input));
  library.impl("lstm.data", TORCH_FN(lstm_data));
  library.impl("gru.input", TORCH_FN(gru_input));
  library.impl("gru.data", TORCH_FN(gru_data));
  library.impl("lstm_cell", TORCH_FN(lstm_cell));
  library.impl("gru_cell", TORCH_FN(gru_cell));
}

}  // namespace strata::kernels
