// Sums and the like over some dimensions, without a kernel for the meta device.
#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

/// The sizes of `value` without `dimensions`, or with 1 there. None: without all.
std::optional<std::vector<int64_t>> without(const Value& value,
                                            const std::vector<int64_t>& dimensions, bool keep) {
  std::vector<bool> goes(value.sizes.size(), dimensions.empty());
  for (const int64_t each : dimensions) {
    const auto dimension = dimension_of(value, each);
    if (!dimension) return std::nullopt;
    goes[*dimension] = true;
  }
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < goes.size(); ++d) {
    if (!goes[d]) sizes.push_back(value.sizes[d]);
    if (goes[d] && keep) sizes.push_back(1);
  }
  return sizes;
}

Results reduced(const CallView& call, const std::vector<int64_t>& dimensions, bool keep,
                std::string& why) {
  const Value& self = *call.tensor(0);
  if (!is_real(self)) return refused(why, "values of another dtype");
  const auto sizes = without(self, dimensions, keep);
  if (!sizes) return refused(why, "dimensions that its tensor does not have");
  return {{ExpectedResult{self.dtype, *sizes}}};
}

std::vector<int64_t> dimensions_of(const CallView& call, size_t argument) {
  return call.given(argument).isNone() ? std::vector<int64_t>() : call.integers(argument);
}

// logsumexp(self, dim, keepdim)
Results logsumexp(const CallView& call, std::string& why) {
  return reduced(call, dimensions_of(call, 1), call.flag(2), why);
}

// std and var: (self, unbiased), (self, dim?, unbiased, keepdim), (self, dim?, correction?, keepdim)
Results variance(const CallView& call, std::string& why) {
  if (call.num_arguments() == 2) return reduced(call, {}, false, why);
  return reduced(call, dimensions_of(call, 1), call.flag(3), why);
}

// max and min: (self), (self, dim, keepdim)
Results extreme(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  if (call.num_arguments() == 1) return {{ExpectedResult{self.dtype, {}}}};
  if (call.num_arguments() != 3) return refused(why, "arguments of another overload");
  const auto sizes = without(self, {call.given(1).toInt()}, call.flag(2));
  if (!sizes) return refused(why, "a dimension that its tensor does not have");
  return {{ExpectedResult{self.dtype, *sizes}, ExpectedResult{at::kLong, *sizes}}};
}

// prod(self, dtype?) and (self, dim, keepdim, dtype?)
Results product(const CallView& call, std::string& why) {
  const bool of_one = call.num_arguments() == 4;
  if (!call.given(of_one ? 3 : 1).isNone()) return refused(why, "a dtype of its own");
  if (!of_one) return reduced(call, {}, false, why);
  return reduced(call, {call.given(1).toInt()}, call.flag(2), why);
}

}  // namespace

const RuleTable& reduction_rules() {
  static const RuleTable rules = {
      {"aten::logsumexp", logsumexp}, {"aten::max", extreme},  {"aten::min", extreme},
      {"aten::prod", product},        {"aten::std", variance}, {"aten::var", variance},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
