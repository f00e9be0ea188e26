#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "strata/core/export.h"
#include "strata/runtime/variable.h"

namespace strata::metrics {

/// The weighted mean of everything it was shown since the last reset, over all replicas: each adds
/// to its own total and count, reading adds these up. Make it in the strategy's scope, outside
/// `run`. Source: keras.metrics.Mean under tf.distribute.
class STRATA_API Mean {
 public:
  explicit Mean(const std::string& name = "mean");

  /// @param values  Any shape; empty counts nothing. By a replica or outside `run`.
  /// @param weight  Broadcastable to `values`, or undefined for 1.
  void update(const at::Tensor& values, const at::Tensor& weight = {});
  void update(double value, double weight = 1);

  /// total / count in float64; 0 before the first update. Outside `run`: over all replicas; inside:
  /// this replica's own.
  double result() const;
  void reset();

  const std::string& name() const { return name_; }
  const Variable& total() const { return total_; }
  const Variable& count() const { return count_; }

 private:
  std::string name_;
  Variable total_;
  Variable count_;
};

}  // namespace strata::metrics
