#pragma once

#include <ATen/core/ScalarType.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "strata/graph/graph.h"

namespace strata::graph::remote {

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

  /// Null: absent.
  const Value* tensor(size_t argument) const;
  ValueId id(size_t argument) const { return node_.arguments[argument].values[0]; }
  const c10::IValue& given(size_t argument) const { return node_.arguments[argument].number; }
  bool flag(size_t argument) const { return given(argument).toBool(); }
  std::vector<int64_t> integers(size_t argument) const { return given(argument).toIntVector(); }

 private:
  const Graph& graph_;
  const Node& node_;
  size_t n_;
};

/// What operators check too little of, or whose results no kernel for the meta device tells.
/// @return What the call gives; nothing: its arguments do not fit each other, and `why` says how.
using StepRule = std::optional<std::vector<std::optional<ExpectedResult>>> (*)(const CallView& call,
                                                                               std::string& why);

/// How a step may have the operator `name` ("aten::add.Tensor").
enum class Admission {
  kRefused,
  kByMeta,  ///< Its kernel for the meta device checks arguments and tells results.
  kByRule,  ///< `find_step_rule` has it.
  kZeroed,  ///< As kByMeta; its results have memory as it comes, which the server clears.
};
Admission admission_of(std::string_view name);

/// Null: admission_of is not kByRule.
StepRule find_step_rule(std::string_view name);

}  // namespace strata::graph::remote
