#pragma once

#include <string_view>
#include <vector>

#include "tensor/update_rule.h"

namespace strata::tensor {

/// The slots of the rule's row that its options ask for.
template <typename Rule>
std::vector<RuleSlot> slots_of(const Rule& rule) {
  std::vector<RuleSlot> slots;
  for (const RuleSlot& slot : row_of(rule).slots) {
    bool wanted = slot.when.empty();
    Rule::visit_options(
        [&](std::string_view option, const auto& value) {
          if (option == slot.when) wanted = static_cast<bool>(value);
        },
        rule);
    if (wanted) slots.push_back(slot);
  }
  return slots;
}

/// An update rule that keeps its options. @param kernel  One of UpdateKernelId.
template <typename Rule>
class RuleOf : public UpdateRule {
 public:
  RuleOptions options() const final { return options_; }

 protected:
  RuleOf(int kernel, const Rule& options)
      : UpdateRule(kernel, row_of(options), slots_of(options)), options_(options) {}

  const Rule options_;
};

}  // namespace strata::tensor
