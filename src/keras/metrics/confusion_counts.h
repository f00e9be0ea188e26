#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "strata/keras/metric.h"

namespace strata::metrics {

/// Weighted counts at each threshold: `[thresholds]`, or `[thresholds, labels]`; float64.
struct ConfusionCounts {
  at::Tensor true_positives, false_positives, true_negatives, false_negatives;
};

struct CountOptions {
  std::optional<int64_t> top_k = {};
  std::optional<int64_t> class_id = {};
  bool multi_label = false;                ///< `[batch, labels]`, counted label by label
  std::vector<double> label_weights = {};  ///< not multi_label: a weight a column
};

/// Counts a batch.
class ConfusionCounter {
 public:
  /// @param thresholds  Rising. Even ones over [0, 1] cost one pass, whatever their number.
  ConfusionCounter(std::vector<double> thresholds, CountOptions options);

  int64_t num_thresholds() const { return static_cast<int64_t>(thresholds_.size()); }

  /// @throws Error kInvalidArgument: shapes do not fit.
  ConfusionCounts count(const char* metric, const MetricInput& input) const;

 private:
  CountOptions options_;
  std::vector<double> thresholds_;
  at::Tensor tensor_;  // float32, as predictions are compared with
  bool even_ = false;
};

/// `count` thresholds from 0 to 1: i / (count - 1); 0.5 if it is one.
std::vector<double> even_thresholds(int64_t count);

/// a / b, 0 where b is 0.
at::Tensor divide_no_nan(const at::Tensor& a, const at::Tensor& b);

}  // namespace strata::metrics
