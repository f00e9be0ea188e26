// Operators that compute each element by itself, and have no kernel for the meta device.
#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

Results as_first(const CallView& call, std::string&) { return {{like(*call.tensor(0))}}; }

// remainder(number, tensor)
Results remainder_of_number(const CallView& call, std::string& why) {
  const Value& other = *call.tensor(1);
  if (!is_real(other)) return refused(why, "a tensor of another dtype");
  return {{like(other)}};
}

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

int category(at::ScalarType dtype) {
  return at::isFloatingType(dtype) ? 2 : dtype == at::kBool ? 0 : 1;
}

/// Whether libtorch may choose `dtype` for a result of `a` and `b`: a tensor without dimensions counts only
/// if it is of a higher category, and may be a number that was made a tensor.
bool may_be_of(at::ScalarType dtype, const Value& a, const Value& b) {
  if (a.sizes.empty() == b.sizes.empty()) {
    const bool numbers = a.sizes.empty() && is_one_of(dtype, {a.dtype, b.dtype});
    return numbers || dtype == at::promoteTypes(a.dtype, b.dtype);
  }
  const Value& number = a.sizes.empty() ? a : b;
  const Value& tensor = a.sizes.empty() ? b : a;
  if (category(number.dtype) <= category(tensor.dtype)) return dtype == tensor.dtype;
  return is_one_of(dtype, {at::promoteTypes(tensor.dtype, number.dtype), at::kFloat});
}

/// Of two tensors, between whose dtypes libtorch chooses.
Results of_both(const CallView& call, const Value& a, const Value& b,
                std::optional<std::vector<int64_t>> sizes, std::string& why) {
  if (!sizes) return refused(why, "sizes that do not fit each other");
  const Value* const result = call.result(0);
  const at::ScalarType dtype = result == nullptr ? a.dtype : result->dtype;
  if (!may_be_of(dtype, a, b)) return refused(why, "another dtype than its operands have");
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
  if (other == nullptr && !is_real(self) && !call.given(1).isInt()) {
    return refused(why, "whole numbers and another number");
  }
  if (other == nullptr) return {{like(self)}};
  return of_both(call, self, *other, broadcast(self.sizes, other->sizes), why);
}

/// A backward: (gradient, self, ...) of the same sizes.
Results backward(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(1);
  if (!are_alike(*call.tensor(0), self)) return refused(why, "a gradient that does not fit");
  return {{like(self)}};
}

// glu_backward(gradient, self, dim)
Results glu_backward(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(1);
  const auto dimension = dimension_of(self, call.given(2).toInt());
  if (!dimension || !is_real(self))
    return refused(why, "a dimension that its tensor does not have");
  std::vector<int64_t> sizes = self.sizes;
  int64_t& halved = sizes[*dimension];
  const bool even = halved % 2 == 0;
  halved /= 2;
  if (!even || call.tensor(0)->sizes != sizes || call.tensor(0)->dtype != self.dtype) {
    return refused(why, "a gradient that does not fit");
  }
  return {{like(self)}};
}

// _prelu_kernel(self, weight)
Results prelu(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const Value& weight = *call.tensor(1);
  if (weight.dtype != self.dtype || !broadcasts_to(weight.sizes, self.sizes)) {
    return refused(why, "weights that do not fit");
  }
  return {{like(self)}};
}

// _prelu_kernel_backward(gradient, self, weight): both are as large as self
Results prelu_backward(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(1);
  const Value& weight = *call.tensor(2);
  if (!are_alike(*call.tensor(0), self) || weight.dtype != self.dtype ||
      !broadcasts_to(weight.sizes, self.sizes)) {
    return refused(why, "a gradient or weights that do not fit");
  }
  return {{like(self), like(self)}};
}

// log_sigmoid_forward(self): and what its backward needs
Results log_sigmoid(const CallView& call, std::string&) {
  return {{like(*call.tensor(0)), like(*call.tensor(0))}};
}

// log_sigmoid_backward(gradient, self, buffer)
Results log_sigmoid_backward(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(1);
  for (const size_t argument : {0, 2}) {
    if (!are_alike(*call.tensor(argument), self)) {
      return refused(why, "a gradient that does not fit");
    }
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
      {"aten::_prelu_kernel", prelu},
      {"aten::_prelu_kernel_backward", prelu_backward},
      {"aten::abs", as_first},
      {"aten::abs_", as_first},
      {"aten::celu", as_first},
      {"aten::celu_", as_first},
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
      {"aten::log_sigmoid_backward", log_sigmoid_backward},
      {"aten::log_sigmoid_forward", log_sigmoid},
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
      {"aten::remainder.Scalar_Tensor", remainder_of_number},
      {"aten::roll", as_first},
      {"aten::rsub.Tensor", reversed_subtraction},
      {"aten::where", where},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
