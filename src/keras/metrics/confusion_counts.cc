#include "keras/metrics/confusion_counts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "optim/shapes.h"
#include "strata/core/error.h"

namespace strata::metrics {
namespace {

using at::Tensor;

/// A batch as columns: `[examples, labels]`, where labels is 1 if all are counted together.
struct Columns {
  Tensor is_true;  ///< float64, 0 or 1
  Tensor y_pred;   ///< float32
  Tensor weight;   ///< float64, broadcastable; undefined: 1
};

/// Numpy's allclose, as Keras asks it.
bool is_even(const std::vector<double>& thresholds) {
  if (thresholds.size() < 3) return false;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const double even = static_cast<double>(i) / static_cast<double>(thresholds.size() - 1);
    if (std::abs(thresholds[i] - even) > 1e-7 * 1.5 + 1e-5 * even) return false;
  }
  return true;
}

/// All but the `k` largest of each row far below every threshold.
Tensor only_top_k(const Tensor& y_pred, int64_t k, double far_below) {
  const auto [values, indices] = y_pred.topk(std::min(k, y_pred.size(-1)), -1);
  return at::full_like(y_pred, far_below).scatter(-1, indices, values);
}

Tensor as_columns(const Tensor& x, bool multi_label) {
  return multi_label ? x : x.reshape({-1, 1});
}

Columns columns_of(const char* metric, const MetricInput& input, const CountOptions& options) {
  Tensor y_pred = input.y_pred.to(at::kFloat), y_true = input.y_true;
  strata::detail::match_shapes("metrics", metric, y_true, y_pred);
  if (options.top_k) y_pred = only_top_k(y_pred, *options.top_k, /*far_below=*/-1e10);
  if (options.class_id) {
    STRATA_CHECK(y_pred.dim() > 1 && *options.class_id < y_pred.size(-1), kInvalidArgument,
                 "[metrics] ", metric, ": got class_id ", *options.class_id,
                 " for y_pred of shape ", y_pred.sizes(), "; expected a column of it");
    y_true = y_true.narrow(-1, *options.class_id, 1);
    y_pred = y_pred.narrow(-1, *options.class_id, 1);
  }
  STRATA_CHECK(!options.multi_label || y_pred.dim() == 2, kInvalidArgument, "[metrics] ", metric,
               ": got y_pred of shape ", y_pred.sizes(),
               " with multi_label; expected [batch, labels]");
  Tensor weight;
  if (input.sample_weight.defined()) {
    Tensor values = y_pred;
    weight = input.sample_weight.to(at::kDouble);
    strata::detail::match_weight("[metrics] update_state", values, weight);
    y_pred = values;
    y_true = y_true.view_as(values);
    weight = weight.expand_as(y_pred);
  }
  if (!options.label_weights.empty()) {
    STRATA_CHECK(y_pred.size(-1) == static_cast<int64_t>(options.label_weights.size()),
                 kInvalidArgument, "[metrics] ", metric, ": got ", options.label_weights.size(),
                 " label_weights for y_pred of shape ", y_pred.sizes());
    const Tensor labels = at::tensor(options.label_weights, at::kDouble).to(y_pred.device());
    weight = (weight.defined() ? weight * labels : labels).expand_as(y_pred);
  }
  Columns columns{as_columns((y_true != 0).to(at::kDouble), options.multi_label),
                  as_columns(y_pred, options.multi_label),
                  {}};
  if (weight.defined()) columns.weight = as_columns(weight, options.multi_label);
  return columns;
}

/// What is above even thresholds, from how much falls between each two: `[thresholds, labels]`.
Tensor above_even(const Tensor& bucket, const Tensor& amounts, int64_t thresholds) {
  const Tensor sums = at::zeros({thresholds + 1, amounts.size(1)}, amounts.options())
                          .scatter_add_(0, bucket, amounts)
                          .narrow(0, 1, thresholds);
  return sums.flip(0).cumsum(0).flip(0);
}

}  // namespace

ConfusionCounter::ConfusionCounter(std::vector<double> thresholds, CountOptions options)
    : options_(std::move(options)),
      thresholds_(std::move(thresholds)),
      even_(is_even(thresholds_)) {
  tensor_ = at::tensor(thresholds_, at::kDouble).to(at::kFloat).reshape({-1, 1, 1});
}

ConfusionCounts ConfusionCounter::count(const char* metric, const MetricInput& input) const {
  const Columns columns = columns_of(metric, input, options_);
  const Tensor& is_true = columns.is_true;
  const Tensor positive = columns.weight.defined() ? is_true * columns.weight : is_true;
  const Tensor negative = columns.weight.defined() ? (1 - is_true) * columns.weight : 1 - is_true;

  ConfusionCounts counts;
  if (even_) {
    // In float32, so that a prediction falls between the same two thresholds as Keras's does.
    // Bucket 0 is below all of them.
    const auto intervals = static_cast<double>(num_thresholds() - 1);
    Tensor bucket = at::nan_to_num(columns.y_pred.clamp(0, 1), 0.0).mul(intervals).ceil();
    if (thresholds_.front() < 0) bucket = bucket.clamp_min(1);
    bucket = bucket.to(at::kLong);
    counts.true_positives = above_even(bucket, positive, num_thresholds());
    counts.false_positives = above_even(bucket, negative, num_thresholds());
  } else {
    const Tensor predicted =
        (columns.y_pred.unsqueeze(0) > tensor_.to(columns.y_pred.device())).to(at::kDouble);
    counts.true_positives = (predicted * positive).sum(1);
    counts.false_positives = (predicted * negative).sum(1);
  }
  counts.false_negatives = positive.sum(0) - counts.true_positives;
  counts.true_negatives = negative.sum(0) - counts.false_positives;
  if (!options_.multi_label) {
    for (Tensor* each : {&counts.true_positives, &counts.false_positives, &counts.false_negatives,
                         &counts.true_negatives}) {
      *each = each->squeeze(1);
    }
  }
  return counts;
}

std::vector<double> even_thresholds(int64_t count) {
  if (count == 1) return {0.5};
  std::vector<double> thresholds;
  for (int64_t i = 0; i < count; ++i) {
    thresholds.push_back(static_cast<double>(i) / static_cast<double>(count - 1));
  }
  return thresholds;
}

Tensor divide_no_nan(const Tensor& a, const Tensor& b) { return (a / b).masked_fill_(b == 0, 0); }

}  // namespace strata::metrics
