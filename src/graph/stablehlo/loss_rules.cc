// Losses and their gradients.
#include <cmath>
#include <functional>

#include "graph/stablehlo/rules.h"

namespace strata::graph::stablehlo {
namespace {

// at::Reduction: 0 none, 1 mean, 2 sum.
constexpr int64_t kNone = 0;
constexpr int64_t kMean = 1;

void give_loss(NodeLowering& node, const Array& elements, int64_t reduction) {
  if (reduction == kNone) return node.give(elements);
  const Sizes axes = all_axes(elements.rank());
  node.give(reduction == kMean ? mean(elements, axes) : sum(elements, axes));
}

/// What a gradient of the result is for each of `count` elements.
Array per_element(const Array& gradient, int64_t reduction, int64_t count) {
  return reduction == kMean ? gradient / static_cast<double>(count) : gradient;
}

/// Classes of `[n, classes, ...]` or `[classes]`: which element is the label's, and its weight.
struct Labels {
  int64_t axis;
  Array hit;     // as large as the input
  Array weight;  // [n, ...] with an axis of one for the classes; zero where it is ignored
};

Labels labels_of(NodeLowering& node, const Array& x, size_t target, size_t weight,
                 int64_t ignored) {
  const int64_t axis = x.rank() > 1 ? 1 : 0;
  const Array label = reshape(node.in(target, at::kLong), kept(x.sizes, {axis}));
  const Array hit = compare("EQ", iota(node.program(), at::kLong, x.sizes, axis), label);
  const Array counts = compare("NE", label, number_like(label, static_cast<double>(ignored)));
  Array weights = number_like(x, 1);
  if (!node.is_none(weight)) {
    const Array each = along(node.in(weight, x.dtype), x.sizes, axis);
    weights = sum(select(hit, each, number_like(x, 0)), {axis}, true);
  }
  return {.axis = axis, .hit = hit, .weight = select(counts, weights, number_like(x, 0))};
}

/// (x, target, weight, reduction, ignored)
void nll_loss(NodeLowering& node) {
  const Array x = node.in(0);
  const Labels labels = labels_of(node, x, 1, 2, node.integer(4));
  const Array chosen = sum(select(labels.hit, x, number_like(x, 0)), {labels.axis}, true);
  // A probability of zero has a loss that is infinite, which a weight of zero must not see.
  const Array counts = compare("NE", labels.weight, number_like(x, 0));
  const Array loss = select(counts, -(chosen * labels.weight), number_like(x, 0));
  const Sizes axes = all_axes(x.rank());
  const Array total = sum(labels.weight, axes);
  const int64_t reduction = node.integer(3);
  if (reduction == kNone) {
    node.give(reshape(loss, node.sizes(0)), 0);
    if (node.wants(1)) node.give(filled(node.program(), 0, x.dtype, node.sizes(1)), 1);
    return;
  }
  node.give(reduction == kMean ? sum(loss, axes) / total : sum(loss, axes), 0);
  if (node.wants(1)) node.give(total, 1);
}

/// (gradient, x, target, weight, reduction, ignored, total weight)
void nll_loss_backward(NodeLowering& node) {
  const Array x = node.in(1);
  const Labels labels = labels_of(node, x, 2, 3, node.integer(5));
  Array gradient = node.in(0);
  const int64_t reduction = node.integer(4);
  if (reduction == kNone) gradient = reshape(gradient, kept(x.sizes, {labels.axis}));
  if (reduction == kMean) gradient = gradient / node.in(6, x.dtype);
  node.give(
      select(labels.hit, broadcast_to(-(labels.weight * gradient), x.sizes), number_like(x, 0)));
}

void mse_loss(NodeLowering& node) {  // (x, target, reduction)
  const Array distance = node.in(0, node.dtype()) - node.in(1, node.dtype());
  give_loss(node, distance * distance, node.integer(2));
}
void mse_loss_backward(NodeLowering& node) {  // (gradient, x, target, reduction)
  const Array distance = node.in(1) - node.in(2);
  node.give(per_element(node.in(0), node.integer(3), distance.count()) * distance * 2.0);
}

void smooth_l1_loss(NodeLowering& node) {  // (x, target, reduction, beta)
  const Array distance = absolute(node.in(0) - node.in(1));
  const double beta = node.number(3);
  const Array small = distance * distance * (0.5 / beta), large = distance - 0.5 * beta;
  give_loss(node, select(compare("LT", distance, number_like(distance, beta)), small, large),
            node.integer(2));
}
void smooth_l1_loss_backward(NodeLowering& node) {  // (gradient, x, target, reduction, beta)
  const Array distance = node.in(1) - node.in(2);
  const double beta = node.number(4);
  const Array slope = minimum(maximum(distance / beta, -1.0), 1.0);
  node.give(per_element(node.in(0), node.integer(3), distance.count()) * slope);
}

void huber_loss(NodeLowering& node) {  // (x, target, reduction, delta)
  const Array distance = absolute(node.in(0) - node.in(1));
  const double delta = node.number(3);
  const Array small = distance * distance * 0.5, large = (distance - 0.5 * delta) * delta;
  give_loss(node, select(compare("LE", distance, number_like(distance, delta)), small, large),
            node.integer(2));
}
void huber_loss_backward(NodeLowering& node) {  // (gradient, x, target, reduction, delta)
  const Array distance = node.in(1) - node.in(2);
  const double delta = node.number(4);
  const Array slope = minimum(maximum(distance, -delta), delta);
  node.give(per_element(node.in(0), node.integer(3), distance.count()) * slope);
}

/// libtorch's bound of the logarithms, and of what gradients are divided by.
constexpr double kLeastLog = -100;
constexpr double kLeastVariance = 1e-12;

void bce_loss(NodeLowering& node) {  // (x, target, weight, reduction)
  const Array x = node.in(0), target = node.in(1);
  const Array yes = maximum(log(x), kLeastLog);
  const Array no = maximum(unary("stablehlo.log_plus_one", -x), kLeastLog);
  Array loss = (target - 1.0) * no - target * yes;
  if (!node.is_none(2)) loss = loss * node.in(2);
  give_loss(node, loss, node.integer(3));
}
void bce_loss_backward(NodeLowering& node) {  // (gradient, x, target, weight, reduction)
  const Array x = node.in(1), target = node.in(2);
  const Array gradient = per_element(node.in(0), node.integer(4), x.count());
  Array result = gradient * (x - target) / maximum((1 - x) * x, kLeastVariance);
  if (!node.is_none(3)) result = result * node.in(3);
  node.give(result);
}

/// (x, target, weight, positive weight, reduction)
void bce_with_logits(NodeLowering& node) {
  const Array x = node.in(0), target = node.in(1);
  const Array log_sigmoid = minimum(x, 0.0) - unary("stablehlo.log_plus_one", exp(-absolute(x)));
  Array factor = log_sigmoid;
  if (!node.is_none(3)) factor = factor * ((node.in(3) - 1.0) * target + 1.0);
  Array loss = (1 - target) * x - factor;
  if (!node.is_none(2)) loss = loss * node.in(2);
  give_loss(node, loss, node.integer(4));
}

}  // namespace

const Rules& loss_rules() {
  static const Rules rules = {
      {"aten::binary_cross_entropy", {bce_loss}},
      {"aten::binary_cross_entropy_backward", {bce_loss_backward}},
      {"aten::binary_cross_entropy_with_logits", {bce_with_logits}},
      {"aten::huber_loss", {huber_loss}},
      {"aten::huber_loss_backward", {huber_loss_backward}},
      {"aten::mse_loss", {mse_loss}},
      {"aten::mse_loss_backward", {mse_loss_backward}},
      {"aten::nll_loss2d_backward", {nll_loss_backward}},
      {"aten::nll_loss2d_forward", {nll_loss}},
      {"aten::nll_loss_backward", {nll_loss_backward}},
      {"aten::nll_loss_forward", {nll_loss}},
      {"aten::smooth_l1_loss", {smooth_l1_loss}},
      {"aten::smooth_l1_loss_backward", {smooth_l1_loss_backward}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
