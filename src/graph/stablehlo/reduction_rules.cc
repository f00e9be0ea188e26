// Sums and the like over axes, and what is made of them: softmax, norms, orders.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

bool keeps(const NodeLowering& node, size_t i) {
  return i < node.num_arguments() && !node.is_none(i) && node.flag(i);
}

/// sum(x, *, dtype), sum.dim_IntList(x, dims, keep, *, dtype); mean and prod alike.
Array reduced(NodeLowering& node, Reduction reduction) {
  const at::ScalarType dtype = accumulated_in(node.dtype());
  const bool all = node.num_arguments() < 3;
  const Array x = node.in(0, dtype);
  return reduce(reduction, x, all ? all_axes(x.rank()) : node.axes(1), !all && keeps(node, 2));
}
void sum_rule(NodeLowering& node) { node.give(reduced(node, Reduction::kSum)); }
void prod(NodeLowering& node) { node.give(reduced(node, Reduction::kProduct)); }
void mean_rule(NodeLowering& node) {
  const Array total = reduced(node, Reduction::kSum);
  const Array x = node.in(0);
  const auto count = static_cast<double>(x.count()) / static_cast<double>(total.count());
  node.give(total / count);
}

void amax(NodeLowering& node) {
  node.give(reduce(Reduction::kMax, node.in(0), node.axes(1), keeps(node, 2)));
}
void amin(NodeLowering& node) {
  node.give(reduce(Reduction::kMin, node.in(0), node.axes(1), keeps(node, 2)));
}
void max_of_all(NodeLowering& node) {
  node.give(reduce(Reduction::kMax, node.in(0), all_axes(node.rank(0))));
}
void min_of_all(NodeLowering& node) {
  node.give(reduce(Reduction::kMin, node.in(0), all_axes(node.rank(0))));
}

void extreme_with_index(NodeLowering& node, bool largest) {
  const Array x = node.in(0);
  if (x.rank() == 0) {
    node.give(x, 0);
    return node.give(node.program().scalar(int64_t{0}, at::kLong), 1);
  }
  const int64_t axis = node.axis(1);
  node.give(reduce(largest ? Reduction::kMax : Reduction::kMin, x, {axis}, keeps(node, 2)), 0);
  node.give(first_index_of(largest, x, axis, keeps(node, 2)), 1);
}
void max_with_index(NodeLowering& node) { extreme_with_index(node, true); }
void min_with_index(NodeLowering& node) { extreme_with_index(node, false); }

void index_of_extreme(NodeLowering& node, bool largest) {
  Array x = node.in(0);
  if (node.is_none(1) || x.rank() == 0) {
    x = reshape(x, {x.count()});
    return node.give(reshape(first_index_of(largest, x, 0), node.sizes()));
  }
  node.give(first_index_of(largest, x, node.axis(1), keeps(node, 2)));
}
void argmax(NodeLowering& node) { index_of_extreme(node, true); }
void argmin(NodeLowering& node) { index_of_extreme(node, false); }

void truth(NodeLowering& node, Reduction reduction) {
  const Array x = node.in(0, at::kBool);
  const bool all = node.num_arguments() == 1;
  node.give(reduce(reduction, x, all ? all_axes(x.rank()) : node.axes(1), keeps(node, 2)));
}
void any(NodeLowering& node) { truth(node, Reduction::kAny); }
void all(NodeLowering& node) { truth(node, Reduction::kAll); }

struct Moments {
  Array mean, variance;
};

/// var.correction(x, dims, *, correction, keep)
Moments moments_of(NodeLowering& node) {
  const Array x = node.in(0, accumulated_in(node.dtype()));
  const Sizes axes = node.axes(1);
  const double correction = node.is_none(2) ? 1 : node.number(2);
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x.size(axis));
  const Array center = mean(x, axes, true);
  const Array distance = x - center;
  return {.mean = keeps(node, 3) ? center : reshape(center, without(x.sizes, axes)),
          .variance =
              sum(distance * distance, axes, keeps(node, 3)) / std::max(0.0, count - correction)};
}
void var(NodeLowering& node) { node.give(moments_of(node).variance); }
void std_rule(NodeLowering& node) { node.give(sqrt(moments_of(node).variance)); }
void var_mean(NodeLowering& node) {
  const Moments moments = moments_of(node);
  node.give(moments.variance, 0);
  node.give(moments.mean, 1);
}
void std_mean(NodeLowering& node) {
  const Moments moments = moments_of(node);
  node.give(sqrt(moments.variance), 0);
  node.give(moments.mean, 1);
}

Array norm_of(const Array& x, double order, const Sizes& axes, bool keep) {
  const Array size = absolute(x);
  if (order == 2) return sqrt(sum(x * x, axes, keep));
  if (order == 1) return sum(size, axes, keep);
  if (std::isinf(order)) {
    return reduce(order > 0 ? Reduction::kMax : Reduction::kMin, size, axes, keep);
  }
  if (order == 0) {
    return sum(convert(compare("NE", x, number_like(x, 0)), x.dtype), axes, keep);
  }
  return power(sum(power(size, number_like(x, order)), axes, keep), number_like(x, 1 / order));
}

/// linalg_vector_norm(x, order, dims, keep, *, dtype), norm.ScalarOpt_dim(x, order, dims, keep)
void norm(NodeLowering& node) {
  const Array x = node.in(0, accumulated_in(node.dtype()));
  node.give(norm_of(x, node.is_none(1) ? 2 : node.number(1), node.axes(2), keeps(node, 3)));
}
/// norm.Scalar(x, order)
void norm_of_all(NodeLowering& node) {
  const Array x = node.in(0, accumulated_in(node.dtype()));
  node.give(norm_of(x, node.number(1), all_axes(x.rank()), false));
}

void logsumexp(NodeLowering& node) {
  const Array x = node.in(0);
  const Sizes axes = node.axes(1);
  const Array largest = reduce(Reduction::kMax, x, axes, true);
  const Array infinite =
      compare("EQ", absolute(largest), number_like(x, std::numeric_limits<double>::infinity()));
  const Array center = select(infinite, number_like(x, 0), largest);
  node.give(reshape(log(sum(exp(x - center), axes, true)) + center, node.sizes()));
}

void softmax(NodeLowering& node) {
  const Array x = node.in(0, accumulated_in(node.dtype()));
  if (x.rank() == 0) return node.give(filled(node.program(), 1, x.dtype, {}));
  const Sizes axes = {node.axis(1)};
  const Array e = exp(x - reduce(Reduction::kMax, x, axes, true));
  node.give(e / sum(e, axes, true));
}

void log_softmax(NodeLowering& node) {
  const Array x = node.in(0, accumulated_in(node.dtype()));
  if (x.rank() == 0) return node.give(filled(node.program(), 0, x.dtype, {}));
  const Sizes axes = {node.axis(1)};
  const Array shifted = x - reduce(Reduction::kMax, x, axes, true);
  node.give(shifted - log(sum(exp(shifted), axes, true)));
}

void softmax_backward(NodeLowering& node) {  // (gradient, y, axis, input dtype)
  const Array gradient = node.in(0), y = node.in(1);
  if (y.rank() == 0) return node.give(zeros_like(y));
  const Array product = gradient * y;
  node.give(product - y * sum(product, {node.axis(2)}, true));
}

void log_softmax_backward(NodeLowering& node) {
  const Array gradient = node.in(0), y = node.in(1);
  if (y.rank() == 0) return node.give(zeros_like(y));
  node.give(gradient - exp(y) * sum(gradient, {node.axis(2)}, true));
}

void cumsum(NodeLowering& node) {
  const Array x = node.in(0, node.dtype());
  node.give(x.rank() == 0 ? x : cumulate(Reduction::kSum, x, node.axis(1)));
}
void cumprod(NodeLowering& node) {
  const Array x = node.in(0, node.dtype());
  node.give(x.rank() == 0 ? x : cumulate(Reduction::kProduct, x, node.axis(1)));
}

void give_sorted(NodeLowering& node, size_t axis, size_t descending) {
  const Array x = node.in(0);
  if (x.rank() == 0) {
    const Array zero = node.program().scalar(int64_t{0}, at::kLong);
    node.give(x, 0);
    return node.give(zero, 1);
  }
  const auto [values, indices] = sort(x, node.axis(axis), node.flag(descending));
  node.give(values, 0);
  node.give(indices, 1);
}
void sort_rule(NodeLowering& node) { give_sorted(node, 1, 2); }
void stable_sort(NodeLowering& node) { give_sorted(node, 2, 3); }

void topk(NodeLowering& node) {  // (x, k, axis, largest, sorted)
  const Array x = node.in(0);
  node.require(x.rank() > 0, "no axis");
  const auto [values, indices] = sort(x, node.axis(2), node.flag(3));
  node.give(slice(values, node.axis(2), 0, node.integer(1)), 0);
  node.give(slice(indices, node.axis(2), 0, node.integer(1)), 1);
}

}  // namespace

const Rules& reduction_rules() {
  static const Rules rules = {
      {"aten::_log_softmax", {log_softmax}},
      {"aten::_log_softmax_backward_data", {log_softmax_backward}},
      {"aten::_softmax", {softmax}},
      {"aten::_softmax_backward_data", {softmax_backward}},
      {"aten::all", {all}},
      {"aten::amax", {amax}},
      {"aten::amin", {amin}},
      {"aten::any", {any}},
      {"aten::argmax", {argmax}},
      {"aten::argmin", {argmin}},
      {"aten::cumprod", {cumprod}},
      {"aten::cumsum", {cumsum}},
      {"aten::linalg_vector_norm", {norm}},
      {"aten::logsumexp", {logsumexp}},
      {"aten::max", {max_of_all}},
      {"aten::max.dim", {max_with_index}},
      {"aten::mean", {mean_rule}},
      {"aten::min", {min_of_all}},
      {"aten::min.dim", {min_with_index}},
      {"aten::norm", {norm}},
      {"aten::norm.Scalar", {norm_of_all}},
      {"aten::prod", {prod}},
      {"aten::prod.dim_int", {prod}},
      {"aten::sort", {sort_rule}},
      {"aten::sort.stable", {stable_sort}},
      {"aten::std", {std_rule}},
      {"aten::std_mean", {std_mean}},
      {"aten::sum", {sum_rule}},
      {"aten::topk", {topk}},
      {"aten::var", {var}},
      {"aten::var_mean", {var_mean}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
