// Operators that take places in a tensor from another.
#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse): checks each index.
Results embedding(const CallView& call, std::string& why) {
  const Value& weight = *call.tensor(0);
  const Value& indices = *call.tensor(1);
  if (weight.sizes.size() != 2 || !is_real(weight) ||
      !is_one_of(indices.dtype, {at::kLong, at::kInt})) {
    return refused(why, "no table of rows, or indices of another dtype");
  }
  std::vector<int64_t> sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  return {{ExpectedResult{weight.dtype, std::move(sizes)}}};
}

// embedding_dense_backward(gradient, indices, num_weights, padding_idx, scale_grad_by_freq)
Results embedding_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& indices = *call.tensor(1);
  const int64_t rows = call.given(2).toInt();
  if (gradient.sizes.empty() || without_last(gradient.sizes) != indices.sizes || rows < 0 ||
      call.flag(4) || !is_real(gradient)) {
    return refused(why, "a gradient that does not fit");
  }
  const bool checked = is_never_written(call.graph(), call.id(1)) &&
                       comes_after(call, "aten::embedding", [&](const Node& node) {
                         const Value& table =
                             call.graph().values[static_cast<size_t>(node.arguments[0].values[0])];
                         return node.arguments[1].values[0] == call.id(1) && table.sizes[0] == rows;
                       });
  if (!checked) return refused(why, "indices that no embedding before it has read");
  return {{ExpectedResult{gradient.dtype, {rows, gradient.sizes.back()}}}};
}

// index_select(self, dim, index): checks each index.
Results index_select(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const Value& index = *call.tensor(2);
  const auto dimension = dimension_of(self, call.given(1).toInt());
  if (!dimension || index.sizes.size() != 1 || !is_one_of(index.dtype, {at::kLong, at::kInt})) {
    return refused(why, "a dimension or an index that does not fit");
  }
  std::vector<int64_t> sizes = self.sizes;
  sizes[*dimension] = index.sizes[0];
  return {{ExpectedResult{self.dtype, std::move(sizes)}}};
}

// bucketize(self, boundaries, out_int32, right): a search, which ends whatever the boundaries are.
Results bucketize(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const Value& boundaries = *call.tensor(1);
  if (boundaries.sizes.size() != 1 || !is_real(self) || boundaries.dtype != self.dtype) {
    return refused(why, "boundaries that are no row of the values' dtype");
  }
  return {{ExpectedResult{call.flag(2) ? at::kInt : at::kLong, self.sizes}}};
}

// _index_put_impl_(self, indices, values, accumulate, unsafe): checks each index; `unsafe` is for GPUs.
Results index_put(const CallView& call, std::string&) { return {{like(*call.tensor(0))}}; }

// masked_fill(self, mask, value)
Results masked_fill(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const Value& mask = *call.tensor(1);
  const bool is_number = call.tensor(2) == nullptr || call.tensor(2)->sizes.empty();
  if (mask.dtype != at::kBool || !broadcasts_to(mask.sizes, self.sizes) || !is_number) {
    return refused(why, "a mask or a value that does not fit");
  }
  return {{like(self)}};
}

}  // namespace

const RuleTable& index_rules() {
  static const RuleTable rules = {
      {"aten::_index_put_impl_", index_put}, {"aten::bucketize.Tensor", bucketize},
      {"aten::embedding", embedding},        {"aten::embedding_dense_backward", embedding_backward},
      {"aten::index_select", index_select},  {"aten::masked_fill", masked_fill},
      {"aten::masked_fill_", masked_fill},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
