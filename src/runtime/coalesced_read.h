#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "strata/runtime/variable.h"

namespace strata::detail {

/// Reads kOnRead variables over all processes with as few messages as there are dtypes; while it
/// lives, `value()` of them on this thread costs nothing. Outside `run`, by every process. Where
/// there is one process it does nothing.
class CoalescedRead {
 public:
  explicit CoalescedRead(const std::vector<Variable>& variables);
  ~CoalescedRead();
  CoalescedRead(const CoalescedRead&) = delete;
  CoalescedRead& operator=(const CoalescedRead&) = delete;

  /// What this thread has read of it; null: nothing.
  static const at::Tensor* value_of(const VariableState& variable);

 private:
  std::map<const VariableState*, at::Tensor> values_;
  CoalescedRead* outer_;
};

}  // namespace strata::detail
