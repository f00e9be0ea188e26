#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <vector>

#include "strata/runtime/variable.h"

namespace strata::detail {

/// Reads kOnRead variables over all processes with as few messages as there are dtypes; while it
/// lives, `value()` of them on this thread costs nothing. Outside `run`, by every process. Where
/// there is one process it does nothing.
class CoalescedRead {
 public:
  using Values = std::map<const VariableState*, at::Tensor>;

  explicit CoalescedRead(const std::vector<Variable>& variables);
  /// Of `begin_on_cards`, by any of the processes.
  explicit CoalescedRead(Values values);
  /// What a read now would find, by every process together: the cards work it out while the host goes
  /// on. Whether it has come about the group's cards know once it has been read. Nothing: some variables are
  /// none that cards add.
  static std::optional<Values> begin_on_cards(const std::vector<Variable>& variables);
  ~CoalescedRead();
  CoalescedRead(const CoalescedRead&) = delete;
  CoalescedRead& operator=(const CoalescedRead&) = delete;

  /// What this thread has read of it; null: nothing.
  static const at::Tensor* value_of(const VariableState& variable);

 private:
  Values values_;
  CoalescedRead* outer_;
};

}  // namespace strata::detail
