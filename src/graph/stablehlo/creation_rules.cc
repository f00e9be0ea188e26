// Tensors that are made of numbers. What is not initialized is zero.
#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

void give_filled(NodeLowering& node, double value) {
  node.give(filled(node.program(), value, node.dtype(), node.sizes()));
}
void zeros(NodeLowering& node) { give_filled(node, 0); }
void ones(NodeLowering& node) { give_filled(node, 1); }

/// (sizes or a tensor, value, ...)
void full(NodeLowering& node) {
  node.give(broadcast_to(node.operand(1, node.dtype()), node.sizes()));
}
/// new_full(self, sizes, value, ...)
void new_full(NodeLowering& node) {
  node.give(broadcast_to(node.operand(2, node.dtype()), node.sizes()));
}

void scalar_tensor(NodeLowering& node) { node.give(node.operand(0, node.dtype())); }

void give_range(NodeLowering& node, double begin, double step) {
  const bool real = c10::isFloatingType(node.dtype());
  const Array index = iota(node.program(), real ? node.dtype() : at::kLong, node.sizes(), 0);
  node.give(convert(index * step + begin, node.dtype()));
}
/// arange(end), arange.start(begin, end), arange.start_step(begin, end, step)
void arange(NodeLowering& node) { give_range(node, 0, 1); }
void arange_start(NodeLowering& node) { give_range(node, node.number(0), 1); }
void arange_start_step(NodeLowering& node) { give_range(node, node.number(0), node.number(2)); }

void linspace(NodeLowering& node) {
  const int64_t steps = node.integer(2);
  const double begin = node.number(0), end = node.number(1);
  give_range(node, begin, steps > 1 ? (end - begin) / static_cast<double>(steps - 1) : 0);
}

void eye(NodeLowering& node) {
  const Array row = iota(node.program(), at::kLong, node.sizes(), 0);
  const Array column = iota(node.program(), at::kLong, node.sizes(), 1);
  node.give(convert(compare("EQ", row, column), node.dtype()));
}

}  // namespace

const Rules& creation_rules() {
  static const Rules rules = {
      {"aten::_efficientzerotensor", {zeros}},
      {"aten::arange", {arange}},
      {"aten::arange.start", {arange_start}},
      {"aten::arange.start_step", {arange_start_step}},
      {"aten::empty", {zeros}},
      {"aten::empty_like", {zeros}},
      {"aten::empty_strided", {zeros}},
      {"aten::eye", {eye}},
      {"aten::fill", {full}},
      {"aten::full", {full}},
      {"aten::full_like", {full}},
      {"aten::linspace", {linspace}},
      {"aten::new_empty", {zeros}},
      {"aten::new_empty_strided", {zeros}},
      {"aten::new_full", {new_full}},
      {"aten::new_ones", {ones}},
      {"aten::new_zeros", {zeros}},
      {"aten::ones", {ones}},
      {"aten::ones_like", {ones}},
      {"aten::scalar_tensor", {scalar_tensor}},
      {"aten::zero", {zeros}},
      {"aten::zeros", {zeros}},
      {"aten::zeros_like", {zeros}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
