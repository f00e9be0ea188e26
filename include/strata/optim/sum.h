#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/runtime/variable.h"

namespace strata::metrics {

/// The weighted sum of everything it was shown since the last reset, over all replicas; in all else
/// like Mean. Source: keras.metrics.Sum under tf.distribute.
class STRATA_API Sum {
 public:
  explicit Sum(const std::string& name = "sum");

  /// @param values  Any shape. @param weight  Undefined for 1; one for each example or each value.
  void update(const at::Tensor& values, const at::Tensor& weight = {});

  double result() const;
  void reset();
  void build();  ///< As Mean::build.

  const std::string& name() const;
  const Variable& total() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::metrics
