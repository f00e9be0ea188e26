// Products of matrices, and attention.
#include <cmath>
#include <limits>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

void mm(NodeLowering& node) { node.give(matmul(node.in(0), node.in(1))); }
void bmm(NodeLowering& node) { node.give(batch_matmul(node.in(0), node.in(1))); }
void mv(NodeLowering& node) { node.give(dot(node.in(0), node.in(1), {}, {}, {1}, {0})); }
void dot_rule(NodeLowering& node) { node.give(dot(node.in(0), node.in(1), {}, {}, {0}, {0})); }

/// beta * bias + alpha * product; beta 0: the bias is not read, even if it is NaN.
void give_with_bias(NodeLowering& node, const Array& product) {
  const double beta = node.number(3), alpha = node.number(4);
  const Array scaled = alpha == 1 ? product : product * alpha;
  if (beta == 0) return node.give(scaled);
  const Array bias = node.in(0);
  node.give(broadcast_to(beta == 1 ? bias : bias * beta, product.sizes) + scaled);
}
void addmm(NodeLowering& node) { give_with_bias(node, matmul(node.in(1), node.in(2))); }
void addmv(NodeLowering& node) {
  give_with_bias(node, dot(node.in(1), node.in(2), {}, {}, {1}, {0}));
}
void baddbmm(NodeLowering& node) { give_with_bias(node, batch_matmul(node.in(1), node.in(2))); }
void addbmm(NodeLowering& node) {
  give_with_bias(node, sum(batch_matmul(node.in(1), node.in(2)), {0}));
}
void addr(NodeLowering& node) { give_with_bias(node, dot(node.in(1), node.in(2), {}, {}, {}, {})); }

/// What attention has for both directions: q `[b, h, n, e]`, k `[b, h, m, e]`, v `[b, h, m, f]`.
struct Attention {
  Array q, k, v;
  double scale;
  Array scores;  // [b, h, n, m], scaled and masked

  /// By k's and v's last axes but one.
  Array weights() const {
    const Array e = exp(scores - largest());
    return e / sum(e, {3}, true);
  }
  Array logsumexp() const {
    const Array top = largest();
    return reshape(log(sum(exp(scores - top), {3}, true)) + top, {q.size(0), q.size(1), q.size(2)});
  }

 private:
  Array largest() const { return reduce(Reduction::kMax, scores, {3}, true); }
};

Attention attention_of(NodeLowering& node, size_t first, size_t causal, size_t mask, size_t scale) {
  Attention made{.q = node.in(first),
                 .k = node.in(first + 1),
                 .v = node.in(first + 2),
                 .scale = 0,
                 .scores = {}};
  made.scale =
      node.is_none(scale) ? 1 / std::sqrt(static_cast<double>(made.q.size(3))) : node.number(scale);
  made.scores = dot(made.q, made.k, {0, 1}, {0, 1}, {3}, {3}) * made.scale;
  const Array never = number_like(made.scores, -std::numeric_limits<double>::infinity());
  if (node.flag(causal)) {
    const Array row = iota(node.program(), at::kLong, made.scores.sizes, 2);
    const Array column = iota(node.program(), at::kLong, made.scores.sizes, 3);
    made.scores = select(compare("LE", column, row), made.scores, never);
  }
  if (!node.is_none(mask)) {
    const Array given = node.in(mask);
    made.scores = given.is_bool() ? select(given, made.scores, never)
                                  : made.scores + convert(given, made.scores.dtype);
  }
  return made;
}

/// (q, k, v, dropout, causal, *, mask, scale)
void attention(NodeLowering& node) {
  node.require(node.number(3) == 0, "dropout");
  const Attention made = attention_of(node, 0, 4, 5, 6);
  node.give(dot(made.weights(), made.v, {0, 1}, {0, 1}, {3}, {2}), 0);
  if (!node.wants(1)) return;
  const Array logsumexp = made.logsumexp();  // libtorch has it as [b, n, h]
  node.give(node.sizes(1) == logsumexp.sizes ? logsumexp : swap_axes(logsumexp, 1, 2), 1);
}

/// (gradient, q, k, v, y, logsumexp, dropout, causal, *, mask, scale)
void attention_backward(NodeLowering& node) {
  node.require(node.number(6) == 0, "dropout");
  const Attention made = attention_of(node, 1, 7, 8, 9);
  const Array gradient = node.in(0), p = made.weights();
  const Array of_p = dot(gradient, made.v, {0, 1}, {0, 1}, {3}, {3});
  const Array of_scores = p * (of_p - sum(of_p * p, {3}, true)) * made.scale;
  node.give(dot(of_scores, made.k, {0, 1}, {0, 1}, {3}, {2}), 0);
  node.give(dot(of_scores, made.q, {0, 1}, {0, 1}, {2}, {2}), 1);
  node.give(dot(p, gradient, {0, 1}, {0, 1}, {2}, {2}), 2);
}

}  // namespace

const Rules& product_rules() {
  static const Rules rules = {
      {"aten::_scaled_dot_product_flash_attention_for_cpu", {attention}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {attention_backward}},
      {"aten::addbmm", {addbmm}},
      {"aten::addmm", {addmm}},
      {"aten::addmv", {addmv}},
      {"aten::addr", {addr}},
      {"aten::baddbmm", {baddbmm}},
      {"aten::bmm", {bmm}},
      {"aten::dot", {dot_rule}},
      {"aten::mm", {mm}},
      {"aten::mv", {mv}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
