// Products.
#include <algorithm>

#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"
#include "strata/core/str_cat.h"

namespace strata::graph::untrusted {
namespace {

// dot(self, other)
Results dot(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const Value& other = *call.tensor(1);
  if (self.sizes.size() != 1 || other.sizes != self.sizes || other.dtype != self.dtype) {
    return refused(why, "vectors that do not fit each other");
  }
  return {{ExpectedResult{self.dtype, {}}}};
}

/// Of a dense layer of matrices of `dtype`: (gradient, a?, b?, b_by_columns, wants_bias, ...)
Results dense_gradients(const CallView& call, at::ScalarType dtype, at::ScalarType of_bias,
                        at::ScalarType of_weights, std::string& why) {
  const Value& gradient = *call.tensor(0);
  for (const Value* const each : {&gradient, call.tensor(1), call.tensor(2)}) {
    if (each != nullptr && (each->sizes.size() != 2 || each->dtype != dtype)) {
      return refused(why, str_cat("what is no matrix of ", dtype));
    }
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (call.flag(4)) results[0] = ExpectedResult{of_bias, {gradient.sizes[1]}};
  if (const Value* const b = call.tensor(2)) {
    if (b->sizes[1] != gradient.sizes[1]) return refused(why, "matrices that do not fit");
    results[1] = ExpectedResult{dtype, {gradient.sizes[0], b->sizes[0]}};
  }
  if (const Value* const a = call.tensor(1)) {
    if (a->sizes[0] != gradient.sizes[0]) return refused(why, "matrices that do not fit");
    results[2] = ExpectedResult{of_weights, {a->sizes[1], gradient.sizes[1]}};
  }
  return results;
}

// strata::addmm_backward(gradient, a?, b?, b_by_columns, wants_bias)
Results addmm_backward(const CallView& call, std::string& why) {
  return dense_gradients(call, at::kFloat, at::kFloat, at::kFloat, why);
}

// strata::half_addmm_backward(gradient, a?, b?, b_by_columns, wants_bias, bias_dtype, weights_dtype)
Results half_addmm_backward(const CallView& call, std::string& why) {
  const at::ScalarType of_bias = call.given(5).toScalarType();
  const at::ScalarType of_weights = call.given(6).toScalarType();
  for (const at::ScalarType each : {of_bias, of_weights}) {
    if (!is_one_of(each, {at::kFloat, at::kBFloat16})) return refused(why, "another dtype");
  }
  return dense_gradients(call, at::kBFloat16, of_bias, of_weights, why);
}

/// A layer's weights `[in, out]`, all with the same inputs `x` `[rows, in]`.
bool are_projections(const Value& x, const std::vector<const Value*>& weights) {
  return x.sizes.size() == 2 && is_single_or_double(x) && !weights.empty() &&
         std::ranges::all_of(weights, [&](const Value* weight) {
           return weight->sizes.size() == 2 && weight->sizes[0] == x.sizes[1] &&
                  weight->dtype == x.dtype;
         });
}

// strata::projections(x, weights, biases)
Results projections(const CallView& call, std::string& why) {
  const Value& x = *call.tensor(0);
  const std::vector<const Value*> weights = call.tensors(1), biases = call.tensors(2);
  if (!are_projections(x, weights) || (!biases.empty() && biases.size() != weights.size())) {
    return refused(why, "inputs and weights that do not fit each other");
  }
  std::vector<std::optional<ExpectedResult>> results;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t outputs = weights[i]->sizes[1];
    if (!biases.empty() && !(has_one_each(biases[i], outputs) && biases[i]->dtype == x.dtype)) {
      return refused(why, "a bias that does not fit");
    }
    results.push_back(ExpectedResult{x.dtype, {x.sizes[0], outputs}});
  }
  return results;
}

// strata::projections_backward(gradients, x, weights, wants_x, wants_biases)
Results projections_backward(const CallView& call, std::string& why) {
  const std::vector<const Value*> gradients = call.tensors(0), weights = call.tensors(2);
  const Value& x = *call.tensor(1);
  if (!are_projections(x, weights) || gradients.size() != weights.size()) {
    return refused(why, "inputs and weights that do not fit each other");
  }
  std::vector<std::optional<ExpectedResult>> results = {
      call.flag(3) ? like(x) : ExpectedResult{x.dtype, {0}}};
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::vector<int64_t> sizes = {x.sizes[0], weights[i]->sizes[1]};
    if (gradients[i]->sizes != sizes || gradients[i]->dtype != x.dtype) {
      return refused(why, "a gradient that does not fit");
    }
    results.push_back(like(*weights[i]));
  }
  for (const Value* const weight : weights) {
    if (call.flag(4)) results.push_back(ExpectedResult{x.dtype, {weight->sizes[1]}});
  }
  return results;
}

}  // namespace

const RuleTable& product_rules() {
  static const RuleTable rules = {
      {"aten::dot", dot},
      {"strata::addmm_backward", addmm_backward},
      {"strata::half_addmm_backward", half_addmm_backward},
      {"strata::projections", projections},
      {"strata::projections_backward", projections_backward},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
