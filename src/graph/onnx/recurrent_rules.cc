// The LSTM of oneDNN, which libtorch takes outside of replica functions: a layer in one direction.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "graph/onnx/rules.h"

namespace strata::graph::onnx {
namespace {

constexpr int64_t kLstmMode = 2;

/// libtorch's gates are i, f, g, o, and ONNX's i, o, f, g; with a dimension of directions in front.
at::Tensor in_onnx_order(const at::Tensor& weights) {
  const auto parts = weights.chunk(4, 0);
  return at::cat({parts[0], parts[3], parts[1], parts[2]});
}

void onednn_layer(NodeExport& node) {
  enum { kX, kKernel, kRecurrent, kBias, kRecurrentBias, kH, kC, kReverse };
  constexpr size_t kMode = 9, kUnits = 10, kHasBias = 12;
  node.require(node.integer(kMode) == kLstmMode, "a mode other than LSTM");
  node.require(node.known(kKernel).defined() && node.known(kRecurrent).defined(),
               "weights that are computed");
  const int64_t units = node.integer(kUnits);
  const auto weights = [&](size_t i) {
    return node.model().constant(in_onnx_order(node.known(i)).unsqueeze(0), "lstm");
  };
  at::Tensor bias = at::zeros({8 * units}, node.known(kKernel).options());
  if (node.flag(kHasBias)) {
    bias = at::cat({in_onnx_order(node.known(kBias)), in_onnx_order(node.known(kRecurrentBias))});
  }
  const Dims sizes = node.sizes(kX);  // [time, batch, in]
  const auto state = [&](size_t i) {
    return node.reshape(node.tensor(i), {{.fixed = 1}, sizes[1], {.fixed = units}});
  };
  const Names results = node.model().add(
      "LSTM",
      {node.tensor(kX), weights(kKernel), weights(kRecurrent),
       node.model().constant(bias.unsqueeze(0), "lstm_bias"), "", state(kH), state(kC)},
      {attribute("hidden_size", units),
       attribute("direction", node.flag(kReverse) ? "reverse" : "forward")},
      3);
  for (size_t i = 0; i < 3; ++i) node.give(node.reshape(results[i], node.result_sizes(i)), i);
}

}  // namespace

const Rules& recurrent_rules() {
  static const Rules rules = {{"aten::mkldnn_rnn_layer", onednn_layer}};
  return rules;
}

}  // namespace strata::graph::onnx
