// Operators that reduce dimensions.
#include <numeric>

#include "graph/onnx/rules.h"

namespace strata::graph::onnx {
namespace {

bool keeps(const NodeExport& node, size_t i) {
  return node.node().arguments.size() > i && node.flag(i);
}

std::vector<int64_t> all_axes(const NodeExport& node) {
  std::vector<int64_t> axes(static_cast<size_t>(node.rank(0)));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

std::string reduced(NodeExport& node, const char* op, const std::string& x,
                    const std::vector<int64_t>& axes, bool keep) {
  return node.add(op, {x}, {attribute("axes", axes), attribute("keepdims", int64_t{keep})});
}

/// Axes are an input of this one, since opset 13.
std::string sum_of(NodeExport& node, const std::string& x, const std::vector<int64_t>& axes,
                   bool keep) {
  return node.add("ReduceSum", {x, node.ints(axes)}, {attribute("keepdims", int64_t{keep})});
}

void sum_dims(NodeExport& node) {
  node.give(sum_of(node, node.tensor(0, node.dtype()), node.axes(1), keeps(node, 2)));
}
void sum_all(NodeExport& node) {
  node.give(sum_of(node, node.tensor(0, node.dtype()), all_axes(node), false));
}

void mean_dims(NodeExport& node) {
  node.give(
      reduced(node, "ReduceMean", node.tensor(0, node.dtype()), node.axes(1), keeps(node, 2)));
}
void mean_all(NodeExport& node) {
  node.give(reduced(node, "ReduceMean", node.tensor(0, node.dtype()), all_axes(node), false));
}

void amax(NodeExport& node) {
  node.give(reduced(node, "ReduceMax", node.tensor(0), node.axes(1), keeps(node, 2)));
}
void amin(NodeExport& node) {
  node.give(reduced(node, "ReduceMin", node.tensor(0), node.axes(1), keeps(node, 2)));
}
void max_all(NodeExport& node) {
  node.give(reduced(node, "ReduceMax", node.tensor(0), all_axes(node), false));
}
void min_all(NodeExport& node) {
  node.give(reduced(node, "ReduceMin", node.tensor(0), all_axes(node), false));
}
void prod_dim(NodeExport& node) {
  node.give(
      reduced(node, "ReduceProd", node.tensor(0, node.dtype()), node.axes(1), keeps(node, 2)));
}
void logsumexp(NodeExport& node) {
  node.give(reduced(node, "ReduceLogSumExp", node.tensor(0), node.axes(1), keeps(node, 2)));
}

/// Whether one, or each, is not 0.
void truth(NodeExport& node, const char* op) {
  const std::string x = node.cast(node.tensor(0, at::kBool), at::kBool, at::kInt);
  const bool of_dims = node.node().arguments.size() > 1;
  const std::vector<int64_t> axes = of_dims ? node.axes(1) : all_axes(node);
  node.give(node.cast(reduced(node, op, x, axes, keeps(node, 2)), at::kInt, at::kBool));
}
void any(NodeExport& node) { truth(node, "ReduceMax"); }
void all(NodeExport& node) { truth(node, "ReduceMin"); }

std::string position(NodeExport& node, const char* op, const std::string& x, int64_t axis,
                     bool keep) {
  return node.add(op, {x}, {attribute("axis", axis), attribute("keepdims", int64_t{keep})});
}

void extreme_of_dim(NodeExport& node, const char* reduce, const char* arg) {
  const std::string x = node.tensor(0);
  const bool keep = keeps(node, 2);
  node.give(reduced(node, reduce, x, {node.axis(1)}, keep), 0);
  node.give(position(node, arg, x, node.axis(1), keep), 1);
}
void max_dim(NodeExport& node) { extreme_of_dim(node, "ReduceMax", "ArgMax"); }
void min_dim(NodeExport& node) { extreme_of_dim(node, "ReduceMin", "ArgMin"); }

void arg_extreme(NodeExport& node, const char* op) {
  std::string x = node.tensor(0);
  const bool all = node.is_none(1);
  if (all) x = node.add("Reshape", {x, node.ints({-1})});
  const std::string y = position(node, op, x, all ? 0 : node.axis(1), !all && node.flag(2));
  node.give(all ? node.reshape(y, node.result_sizes()) : y);
}
void argmax(NodeExport& node) { arg_extreme(node, "ArgMax"); }
void argmin(NodeExport& node) { arg_extreme(node, "ArgMin"); }

void variance(NodeExport& node) {
  const std::vector<int64_t> axes = node.axes(1);
  const double correction = node.is_none(2) ? 1 : node.number(2);
  int64_t count = 1;
  for (const int64_t axis : axes) {
    const Dim size = node.sizes(0)[static_cast<size_t>(axis)];
    count *= correction == 0 ? 1 : node.fixed(size);
  }
  const std::string x = node.tensor(0);
  const std::string apart = node.add("Sub", {x, reduced(node, "ReduceMean", x, axes, true)});
  std::string y = reduced(node, "ReduceMean", node.add("Mul", {apart, apart}), axes, node.flag(3));
  if (correction != 0) {
    const double factor = static_cast<double>(count) / (static_cast<double>(count) - correction);
    y = node.add("Mul", {y, node.scalar(factor, node.dtype())});
  }
  if (node.node().name.starts_with("aten::std")) y = node.add("Sqrt", {y});
  node.give(y);
}

void vector_norm(NodeExport& node) {
  const double order = node.number(1);
  node.require(order == 1 || order == 2, "a norm other than 1 and 2");
  node.give(reduced(node, order == 1 ? "ReduceL1" : "ReduceL2", node.tensor(0, node.dtype()),
                    node.axes(2), node.flag(3)));
}

void softmax(NodeExport& node) {
  node.give(node.add("Softmax", {node.tensor(0, node.dtype())}, {attribute("axis", node.axis(1))}));
}
void log_softmax(NodeExport& node) {
  node.give(
      node.add("LogSoftmax", {node.tensor(0, node.dtype())}, {attribute("axis", node.axis(1))}));
}

}  // namespace

const Rules& reduction_rules() {
  static const Rules rules = {{"aten::_log_softmax", log_softmax},
                              {"aten::_softmax", softmax},
                              {"aten::all", all},
                              {"aten::amax", amax},
                              {"aten::amin", amin},
                              {"aten::any", any},
                              {"aten::argmax", argmax},
                              {"aten::argmin", argmin},
                              {"aten::linalg_vector_norm", vector_norm},
                              {"aten::logsumexp", logsumexp},
                              {"aten::max", max_all},
                              {"aten::max.dim", max_dim},
                              {"aten::mean", mean_all},
                              {"aten::mean.dim", mean_dims},
                              {"aten::min", min_all},
                              {"aten::min.dim", min_dim},
                              {"aten::prod.dim_int", prod_dim},
                              {"aten::std.correction", variance},
                              {"aten::sum", sum_all},
                              {"aten::sum.dim_IntList", sum_dims},
                              {"aten::var.correction", variance}};
  return rules;
}

}  // namespace strata::graph::onnx
