#pragma once

#include <ATen/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/graph/graph.h"

namespace strata::graph::untrusted {

/// A result that a rule expects: at most so many elements. Absent: no tensor.
struct ExpectedResult {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
};

/// A call of an operator, as a rule looks at it.
class CallView {
 public:
  CallView(const Graph& graph, size_t node) : graph_(graph), node_(graph.nodes[node]), n_(node) {}

  const Graph& graph() const { return graph_; }
  size_t number() const { return n_; }
  size_t num_arguments() const { return node_.arguments.size(); }

  /// Null: absent.
  const Value* tensor(size_t argument) const;
  /// Of a list.
  std::vector<const Value*> tensors(size_t argument) const;
  ValueId id(size_t argument) const { return node_.arguments[argument].values[0]; }
  /// What the graph says of a result; null: none is wanted.
  const Value* result(size_t i) const { return value_of(node_.results[i].values[0]); }
  const c10::IValue& given(size_t argument) const { return node_.arguments[argument].number; }
  bool flag(size_t argument) const { return given(argument).toBool(); }
  std::vector<int64_t> integers(size_t argument) const { return given(argument).toIntVector(); }
  /// One number stands for `count` times the same.
  std::vector<int64_t> integers(size_t argument, size_t count) const {
    std::vector<int64_t> numbers = integers(argument);
    if (numbers.size() == 1) numbers.resize(count, numbers[0]);
    return numbers;
  }

 private:
  const Value* value_of(ValueId id) const;

  const Graph& graph_;
  const Node& node_;
  size_t n_;
};

/// What operators check too little of, or whose results no kernel for the meta device tells. The call has
/// arguments of its schema's types (call_types.h).
/// @return What the call gives, those of lists one after another; nothing: its arguments do not fit each
///   other, and `why` says how.
using CallRule = std::optional<std::vector<std::optional<ExpectedResult>>> (*)(const CallView& call,
                                                                               std::string& why);

/// @param name  An operator's name with its overload, "aten::masked_fill.Scalar".
/// @return nullptr: no rule has that name.
CallRule find_call_rule(std::string_view name);

/// What `rule` says. One that meets arguments of other types than it expects, those of another overload, refuses
/// them.
std::optional<std::vector<std::optional<ExpectedResult>>> apply_rule(CallRule rule,
                                                                     const CallView& call,
                                                                     std::string& why);

/// Empty: no rule refuses the node, whose values are as the graph says. Else what it got.
std::string fault_of_sizes(const Graph& graph, size_t node);

}  // namespace strata::graph::untrusted
