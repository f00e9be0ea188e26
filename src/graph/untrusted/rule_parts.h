#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/untrusted/call_rules.h"

/// What rules have in common.
namespace strata::graph::untrusted {

using Results = std::optional<std::vector<std::optional<ExpectedResult>>>;

inline Results refused(std::string& why, std::string_view what) {
  why = what;
  return std::nullopt;
}

inline bool is_one_of(at::ScalarType dtype, std::initializer_list<at::ScalarType> known) {
  return std::ranges::find(known, dtype) != known.end();
}
inline bool is_real(const Value& value) {
  return is_one_of(value.dtype, {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf});
}
inline bool is_single_or_double(const Value& value) {
  return is_one_of(value.dtype, {at::kFloat, at::kDouble});
}
inline ExpectedResult like(const Value& value) { return {value.dtype, value.sizes}; }

inline bool are_alike(const Value& a, const Value& b) {
  return a.sizes == b.sizes && a.dtype == b.dtype;
}

/// A dimension of `value`, from 0, of a number that may count from the end; nothing: it has none such.
inline std::optional<size_t> dimension_of(const Value& value, int64_t given) {
  const auto count = static_cast<int64_t>(value.sizes.size());
  if (given < -count || given >= count) return std::nullopt;
  return static_cast<size_t>(given < 0 ? given + count : given);
}

inline std::vector<int64_t> without_last(std::vector<int64_t> sizes) {
  if (!sizes.empty()) sizes.pop_back();
  return sizes;
}

/// Absent, or one number for each of `count`.
inline bool has_one_each(const Value* value, int64_t count) {
  return value == nullptr || value->sizes == std::vector<int64_t>{count};
}

bool is_contiguous(const Value& value);

/// Contiguous, of that dtype and those sizes: what kernels of ours read without a look.
bool is_dense(const Value& value, at::ScalarType dtype, const std::vector<int64_t>& sizes);

/// The sizes of what is broadcast together; nothing: it cannot be.
std::optional<std::vector<int64_t>> broadcast(const std::vector<int64_t>& a,
                                              const std::vector<int64_t>& b);

/// Each dimension, from the last on, is 1 or that of `sizes`.
bool broadcasts_to(const std::vector<int64_t>& from, const std::vector<int64_t>& sizes);

/// No node writes the memory of `id`, and no tensor of the session's is in it.
bool is_never_written(const Graph& graph, ValueId id);

/// A node before `call` has that name and `suits`: it has checked elements that `call` trusts.
bool comes_after(const CallView& call, std::string_view name,
                 const std::function<bool(const Node&)>& suits);

}  // namespace strata::graph::untrusted
