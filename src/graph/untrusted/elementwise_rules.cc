// Operators that compute each element by itself, and have no kernel for the meta device.
#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

Results as_first(const CallView& call, std::string&) { return {{like(*call.tensor(0))}}; }

/// (number, tensor)
Results as_second(const CallView& call, std::string&) { return {{like(*call.tensor(1))}}; }

/// isnan and the like.
Results true_or_false(const CallView& call, std::string&) {
  return {{ExpectedResult{at::kBool, call.tensor(0)->sizes}}};
}

/// logical_and(self, other) and the like.
Results logical(const CallView& call, std::string& why) {
  const auto sizes = broadcast(call.tensor(0)->sizes, call.tensor(1)->sizes);
  if (!sizes) return refused(why, "sizes that do not fit each other");
  return {{ExpectedResult{at::kBool, *sizes}}};
}

/// The same in place.
Results logical_in_place(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  if (!broadcasts_to(call.tensor(1)->sizes, self.sizes)) {
    return refused(why, "sizes that do not fit each other");
  }
  return {{like(self)}};
}

/// Of two tensors, of which one may be a number that was made a tensor: libtorch chooses between their dtypes.
Results of_both(const CallView& call, const Value& a, const Value& b,
                std::optional<std::vector<int64_t>> sizes, std::string& why) {
  if (!sizes) return refused(why, "sizes that do not fit each other");
  const Value* const result = call.result(0);
  const at::ScalarType dtype = result == nullptr ? a.dtype : result->dtype;
  if (!is_one_of(dtype, {a.dtype, b.dtype, at::promoteTypes(a.dtype, b.dtype)})) {
    return refused(why, "another dtype than its operands have");
  }
  return {{ExpectedResult{dtype, *std::move(sizes)}}};
}

// where(condition, self, other)
Results where(const CallView& call, std::string& why) {
  if (call.num_arguments() != 3 || call.tensor(1) == nullptr || call.tensor(2) == nullptr ||
      !is_one_of(call.tensor(0)->dtype, {at::kBool, at::kByte})) {
    return refused(why, "no condition with two tensors");
  }
  const Value& self = *call.tensor(1);
  const Value& other = *call.tensor(2);
  auto sizes = broadcast(self.sizes, other.sizes);
  if (sizes) sizes = broadcast(*sizes, call.tensor(0)->sizes);
  return of_both(call, self, other, std::move(sizes), why);
}

// rsub(self, other, alpha)
Results reversed_subtraction(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const Value& other = *call.tensor(1);
  return of_both(call, self, other, broadcast(self.sizes, other.sizes), why);
}

// floor_divide(self, other), where other may be a number
Results floor_divide(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const Value* const other = call.tensor(1);
  if (other == nullptr) return {{like(self)}};
  return of_both(call, self, *other, broadcast(self.sizes, other->sizes), why);
}

/// A backward: (gradient, self, ...) of the same sizes.
Results backward(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(1);
  if (call.tensor(0)->sizes != self.sizes || call.tensor(0)->dtype != self.dtype) {
    return refused(why, "a gradient that does not fit");
  }
  return {{like(self)}};
}

// glu_backward(gradient, self, dim)
Results glu_backward(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(1);
  const auto count = static_cast<int64_t>(self.sizes.size());
  const int64_t given = call.given(2).toInt();
  if (given < -count || given >= count || !is_real(self)) {
    return refused(why, "a dimension that its tensor does not have");
  }
  std::vector<int64_t> sizes = self.sizes;
  int64_t& halved = sizes[static_cast<size_t>(given < 0 ? given + count : given)];
  const bool even = halved % 2 == 0;
  halved /= 2;
  if (!even || call.tensor(0)->sizes != sizes || call.tensor(0)->dtype != self.dtype) {
    return refused(why, "a gradient that does not fit");
  }
  return {{like(self)}};
}

// native_dropout(input, p, train?)
Results native_dropout(const CallView& call, std::string&) {
  const Value& input = *call.tensor(0);
  return {{like(input), ExpectedResult{at::kBool, input.sizes}}};
}

// native_dropout_backward(gradient, mask, scale)
Results native_dropout_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  if (call.tensor(1)->sizes != gradient.sizes || call.tensor(1)->dtype != at::kBool) {
    return refused(why, "a mask that does not fit");
  }
  return {{like(gradient)}};
}

}  // namespace

const RuleTable& elementwise_rules() {
  static const RuleTable rules = {
      {"aten::abs", as_first},
      {"aten::abs_", as_first},
      {"aten::flip", as_first},
      {"aten::floor_divide", floor_divide},
      {"aten::glu_backward", glu_backward},
      {"aten::hardswish", as_first},
      {"aten::hardswish_", as_first},
      {"aten::hardswish_backward", backward},
      {"aten::hardtanh", as_first},
      {"aten::hardtanh_", as_first},
      {"aten::hardtanh_backward", backward},
      {"aten::isinf", true_or_false},
      {"aten::isnan", true_or_false},
      {"aten::logical_and", logical},
      {"aten::logical_and_", logical_in_place},
      {"aten::logical_not", true_or_false},
      {"aten::logical_not_", as_first},
      {"aten::logical_or", logical},
      {"aten::logical_or_", logical_in_place},
      {"aten::logical_xor", logical},
      {"aten::logical_xor_", logical_in_place},
      {"aten::nan_to_num", as_first},
      {"aten::nan_to_num_", as_first},
      {"aten::native_dropout", native_dropout},
      {"aten::native_dropout_backward", native_dropout_backward},
      {"aten::relu", as_first},
      {"aten::relu_", as_first},
      {"aten::remainder.Scalar_Tensor", as_second},
      {"aten::roll", as_first},
      {"aten::rsub.Tensor", reversed_subtraction},
      {"aten::where", where},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
