#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/runtime/variable.h"

namespace strata::metrics {

/// The weighted sum of all values since the last reset, over all replicas; otherwise like Mean.
/// Source: keras.metrics.Sum under tf.distribute.
class STRATA_API Sum {
 public:
  explicit Sum(const std::string& name = "sum");

  /// @param values  Any shape. @param weight  Undefined for 1; one for each example or each value.
  void update(const at::Tensor& values, const at::Tensor& weight = {});

  double result() const;
  void reset();
  void build();  ///< See Mean::build.

  const std::string& name() const;
  const Variable& total() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::metrics
