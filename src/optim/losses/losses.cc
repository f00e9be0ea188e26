#include "strata/optim/losses.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/div.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <numbers>

#include "graph/host_call.h"
#include "optim/losses/cross_entropy.h"
#include "optim/shapes.h"
#include "strata/core/error.h"

namespace strata::losses {
namespace {

using at::Tensor;

constexpr double kClipEpsilon = 1e-7;  // keras.config.epsilon()

struct Pair {
  Tensor y_true, y_pred;
};

Pair matched(const char* function, const Tensor& y_true, const Tensor& y_pred) {
  STRATA_CHECK(y_pred.is_floating_point(), kInvalidArgument, "[losses] ", function,
               ": got y_pred of dtype ", y_pred.scalar_type(), "; expected a floating dtype");
  STRATA_CHECK(y_pred.dim() >= 1, kInvalidArgument, "[losses] ", function,
               ": got a scalar y_pred; expected [batch, ...]");
  Pair pair{y_true.to(y_pred.scalar_type()), y_pred};
  strata::detail::match_shapes("losses", function, pair.y_true, pair.y_pred);
  return pair;
}

Tensor last_axis_mean(const Tensor& values) { return values.mean(-1); }
Tensor last_axis_sum(const Tensor& values) { return values.sum(-1); }

// Not at::clamp: at the bounds themselves its gradient is 1 up to libtorch 2.11, as in TensorFlow,
// but 0 in 2.15.
Tensor at_least(const Tensor& x, double bound) { return x.masked_fill(x < bound, bound); }
Tensor at_most(const Tensor& x, double bound) { return x.masked_fill(x > bound, bound); }

Tensor clipped(const Tensor& probabilities) {
  return at_most(at_least(probabilities, kClipEpsilon), 1 - kClipEpsilon);
}

Tensor normalized(const Tensor& probabilities) {
  return at::div(probabilities, probabilities.sum(at::IntArrayRef{-1}, /*keepdim=*/true));
}

void check_smoothing(const char* function, double smoothing) {
  STRATA_CHECK(smoothing >= 0 && smoothing <= 1, kInvalidArgument, "[losses] ", function,
               ": got label_smoothing ", smoothing, "; expected a value in [0, 1]");
}

Tensor smoothed(const Tensor& y_true, double smoothing, double target) {
  if (smoothing == 0) return y_true;
  return at::mul(y_true, 1 - smoothing).add_(smoothing * target);
}

Tensor smoothed_classes(const Tensor& y_true, double smoothing) {
  return smoothed(y_true, smoothing, 1 / static_cast<double>(y_true.size(-1)));
}

Tensor binary_from_probabilities(const Tensor& y_true, const Tensor& y_pred) {
  const Tensor p = clipped(y_pred);
  return -(y_true * at::log(p) + (1 - y_true) * at::log(1 - p));
}

Tensor to_signs(const Tensor& y_true) {
  const Tensor binary = (y_true == 0).logical_or_(y_true == 1).all();
  return at::where(binary, 2 * y_true - 1, y_true);
}

// x / max(|x|, 1e-7); the gradient of a zero vector is finite.
Tensor unit(const Tensor& x) {
  const Tensor squared_norm = at::square(x).sum(at::IntArrayRef{-1}, /*keepdim=*/true);
  return x * at::rsqrt(at_least(squared_norm, kClipEpsilon * kClipEpsilon));
}

// The labels as the fused pass takes them, `[*]` for y_pred `[*, classes]`.
Tensor class_labels(const Tensor& y_true, const Tensor& y_pred) {
  constexpr auto kWhere = "[losses] sparse_categorical_crossentropy: ";
  STRATA_CHECK(y_pred.is_floating_point(), kInvalidArgument, kWhere, "got y_pred of dtype ",
               y_pred.scalar_type(), "; expected a floating dtype");
  STRATA_CHECK(y_pred.dim() >= 1 && y_pred.size(-1) > 0, kInvalidArgument, kWhere,
               "got y_pred of shape ", y_pred.sizes(), "; expected [batch, ..., classes]");
  Tensor labels = y_true;
  if (labels.dim() == y_pred.dim() && labels.size(-1) == 1) labels = labels.squeeze(-1);
  STRATA_CHECK(labels.sizes() == y_pred.sizes().slice(0, static_cast<size_t>(y_pred.dim() - 1)),
               kInvalidArgument, kWhere, "got y_true of shape ", y_true.sizes(),
               " and y_pred of shape ", y_pred.sizes(),
               "; expected one class number for each row of y_pred (one-hot labels: "
               "categorical_crossentropy)");
  const at::ScalarType dtype = labels.scalar_type();
  if (dtype != at::kLong && dtype != at::kInt && dtype != at::kByte) labels = labels.to(at::kLong);
  return labels;
}

void check_labels(const Tensor& labels, int64_t classes, std::optional<int64_t> ignore_class) {
  if (!labels.is_cpu()) return;
  const auto check = [classes, ignore_class](const std::vector<Tensor>& given) {
    const Tensor flat = given[0].to(at::kLong).contiguous();
    const int64_t* const values = flat.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < flat.numel(); ++i) {
      if ((values[i] < 0 || values[i] >= classes) && values[i] != ignore_class) {
        throw_bad_label(given[0], i, classes);
      }
    }
    return std::vector<Tensor>();
  };
  graph::call_host("strata::check_labels", {labels}, {}, check, {}, graph::HostInputs::kOfThisRun);
}

// Half precision and GPUs.
Tensor unfused_cross_entropy(const Tensor& logits, const Tensor& labels,
                             std::optional<int64_t> ignore_class) {
  const int64_t classes = logits.size(-1);
  check_labels(labels, classes, ignore_class);
  constexpr int64_t kIgnoreNone = std::numeric_limits<int64_t>::min();
  return at::nll_loss(at::log_softmax(logits.reshape({-1, classes}), -1),
                      labels.to(at::kLong).reshape({-1}), /*weight=*/{}, at::Reduction::None,
                      ignore_class.value_or(kIgnoreNone))
      .reshape(labels.sizes());
}

}  // namespace

Tensor sparse_categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                       const SparseCrossentropyOptions& options) {
  const Tensor labels = class_labels(y_true, y_pred);
  const Tensor logits = options.from_logits ? y_pred : at::log(clipped(y_pred));
  return has_fused_cross_entropy(logits)
             ? softmax_cross_entropy(logits, labels, options.ignore_class)
             : unfused_cross_entropy(logits, labels, options.ignore_class);
}

Tensor categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                const CrossentropyOptions& options) {
  check_smoothing("categorical_crossentropy", options.label_smoothing);
  const auto [truth, prediction] = matched("categorical_crossentropy", y_true, y_pred);
  const Tensor targets = smoothed_classes(truth, options.label_smoothing);
  const Tensor log_probabilities = options.from_logits ? at::log_softmax(prediction, -1)
                                                       : at::log(clipped(normalized(prediction)));
  return -last_axis_sum(targets * log_probabilities);
}

Tensor binary_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                           const CrossentropyOptions& options) {
  check_smoothing("binary_crossentropy", options.label_smoothing);
  const auto [truth, prediction] = matched("binary_crossentropy", y_true, y_pred);
  const Tensor targets = smoothed(truth, options.label_smoothing, 0.5);
  return last_axis_mean(options.from_logits ? at::binary_cross_entropy_with_logits(
                                                  prediction, targets, {}, {}, at::Reduction::None)
                                            : binary_from_probabilities(targets, prediction));
}

Tensor categorical_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                      const FocalOptions& options) {
  check_smoothing("categorical_focal_crossentropy", options.label_smoothing);
  const auto [truth, prediction] = matched("categorical_focal_crossentropy", y_true, y_pred);
  const Tensor targets = smoothed_classes(truth, options.label_smoothing);
  const Tensor p =
      clipped(normalized(options.from_logits ? at::softmax(prediction, -1) : prediction));
  const std::vector<double>& alpha = options.alpha.values;
  const auto classes = static_cast<int64_t>(alpha.size());
  STRATA_CHECK(classes == 1 || (p.dim() > 0 && classes == p.size(-1)), kInvalidArgument,
               "[losses] categorical_focal_crossentropy: got ", classes, " alphas for y_pred of ",
               "shape ", p.sizes(), "; expected one, or one for each class");
  const Tensor factor = (1 - p).pow(options.gamma);
  return -last_axis_sum(
      (classes == 1 ? factor * alpha[0] : factor * at::tensor(alpha, p.options())) * targets *
      at::log(p));
}

Tensor binary_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                 const FocalOptions& options) {
  check_smoothing("binary_focal_crossentropy", options.label_smoothing);
  const auto [truth, prediction] = matched("binary_focal_crossentropy", y_true, y_pred);
  const Tensor targets = smoothed(truth, options.label_smoothing, 0.5);
  const Tensor p = options.from_logits ? at::sigmoid(prediction) : prediction;
  const Tensor right = targets * p + (1 - targets) * (1 - p);
  Tensor loss = (1 - right).pow(options.gamma) * binary_from_probabilities(targets, p);
  if (options.apply_class_balancing) {
    STRATA_CHECK(options.alpha.values.size() == 1, kInvalidArgument,
                 "[losses] binary_focal_crossentropy: got ", options.alpha.values.size(),
                 " alphas; expected one");
    const double alpha = options.alpha.values[0];
    loss = loss * (targets * alpha + (1 - targets) * (1 - alpha));
  }
  return last_axis_mean(loss);
}

Tensor mean_squared_error(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("mean_squared_error", y_true, y_pred);
  return last_axis_mean(at::square(prediction - truth));
}

Tensor mean_absolute_error(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("mean_absolute_error", y_true, y_pred);
  return last_axis_mean(at::abs(prediction - truth));
}

Tensor mean_absolute_percentage_error(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("mean_absolute_percentage_error", y_true, y_pred);
  return 100 *
         last_axis_mean(at::abs((truth - prediction) / at_least(at::abs(truth), kClipEpsilon)));
}

Tensor mean_squared_logarithmic_error(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("mean_squared_logarithmic_error", y_true, y_pred);
  const auto logarithm = [](const Tensor& x) { return at::log(at_least(x, kClipEpsilon) + 1); };
  return last_axis_mean(at::square(logarithm(prediction) - logarithm(truth)));
}

Tensor huber(const Tensor& y_true, const Tensor& y_pred, double delta) {
  STRATA_CHECK(delta > 0, kInvalidArgument, "[losses] huber: got delta ", delta,
               "; expected a positive one");
  const auto [truth, prediction] = matched("huber", y_true, y_pred);
  return last_axis_mean(at::huber_loss(prediction, truth, at::Reduction::None, delta));
}

Tensor log_cosh(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("log_cosh", y_true, y_pred);
  const Tensor error = prediction - truth;
  // A higher threshold than the default 20: softplus(x) = x from there costs digits in float64.
  return last_axis_mean(error + at::softplus(error * -2, /*beta=*/1, /*threshold=*/40) -
                        std::numbers::ln2);
}

Tensor kl_divergence(const Tensor& y_true, const Tensor& y_pred) {
  auto [truth, prediction] = matched("kl_divergence", y_true, y_pred);
  truth = at_most(at_least(truth, kClipEpsilon), 1);
  return last_axis_sum(truth * at::log(truth / at_most(at_least(prediction, kClipEpsilon), 1)));
}

Tensor poisson(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("poisson", y_true, y_pred);
  return last_axis_mean(prediction - truth * at::log(prediction + kClipEpsilon));
}

Tensor hinge(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("hinge", y_true, y_pred);
  return last_axis_mean(at_least(1 - to_signs(truth) * prediction, 0));
}

Tensor squared_hinge(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("squared_hinge", y_true, y_pred);
  return last_axis_mean(at::square(at_least(1 - to_signs(truth) * prediction, 0)));
}

Tensor categorical_hinge(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("categorical_hinge", y_true, y_pred);
  const Tensor positive = last_axis_sum(truth * prediction);
  const Tensor negative = at::amax((1 - truth) * prediction, -1);
  return at_least(negative - positive + 1, 0);
}

Tensor cosine_similarity(const Tensor& y_true, const Tensor& y_pred) {
  const auto [truth, prediction] = matched("cosine_similarity", y_true, y_pred);
  return -last_axis_sum(unit(truth) * unit(prediction));
}

Tensor reduce(const Tensor& values, const Tensor& sample_weight, Reduction reduction) {
  Tensor weighted = values, weight;
  if (sample_weight.defined()) {
    weight = sample_weight.to(values.scalar_type());
    strata::detail::match_weight("[losses] reduce", weighted, weight);
    weighted = weighted * weight;
  }
  if (reduction == Reduction::kNone) return weighted;
  const Tensor total = weighted.sum();
  if (reduction == Reduction::kSum || weighted.numel() == 0) return total;
  if (reduction == Reduction::kMeanWithSampleWeight && weight.defined()) {
    const Tensor divisor = weight.sum();
    return at::where(divisor == 0, at::zeros_like(total), total / divisor);
  }
  return total / static_cast<double>(weighted.numel());
}

}  // namespace strata::losses
