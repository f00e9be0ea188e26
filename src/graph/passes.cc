#include "graph/passes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "graph/operator_of.h"
#include "graph/places.h"
#include "strata/core/str_cat.h"

namespace strata::graph {
namespace {

using Kind = Operand::Kind;

/// Marks from the end what is needed: nodes that write or make a memory that is, views that are read.
class Liveness {
 public:
  explicit Liveness(const Trace& trace)
      : graph_(trace.graph),
        read_(graph_.values.size(), false),
        memory_(graph_.values.size(), false),
        nodes_(graph_.nodes.size(), false) {
    for (const Value& value : graph_.values) {
      if (value.kind != ValueKind::kResult) memory_[static_cast<size_t>(value.memory)] = true;
    }
    for (const ValueId id : graph_.outputs) need(id);
    for (const GradientEffect& effect : trace.effects) {
      for (const ValueId id : effect.gradients) need(id);
    }
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (!is_needed(graph_.nodes[n])) continue;
      nodes_[n] = true;
      for (const Operand& argument : graph_.nodes[n].arguments) {
        for (const ValueId id : argument.values) need(id);
      }
    }
  }

  bool node(size_t n) const { return nodes_[n]; }

 private:
  size_t root(ValueId id) const {
    return static_cast<size_t>(graph_.values[static_cast<size_t>(id)].memory);
  }
  void need(ValueId id) {
    if (id == kNoValue) return;
    read_[static_cast<size_t>(id)] = true;
    memory_[root(id)] = true;
  }
  bool is_needed(const Node& node) const {
    if (node.host || node.results.empty()) return true;
    if (operator_of(node).hasTag(at::Tag::nondeterministic_seeded)) return true;
    const auto writes = [&](ValueId id) { return id != kNoValue && memory_[root(id)]; };
    const auto makes = [&](ValueId id) {
      if (id == kNoValue) return false;
      const bool view = root(id) != static_cast<size_t>(id);
      return view ? read_[static_cast<size_t>(id)] : memory_[root(id)];
    };
    return std::ranges::any_of(node.written, writes) ||
           std::ranges::any_of(node.results, [&](const Operand& result) {
             return std::ranges::any_of(result.values, makes);
           });
  }

  const Graph& graph_;
  std::vector<bool> read_;    // by value
  std::vector<bool> memory_;  // by the first value of each
  std::vector<bool> nodes_;
};

class Numbering {
 public:
  explicit Numbering(size_t values) : kept_(values, false), new_ids_(values, kNoValue) {}

  void keep(ValueId id, const Graph& graph) {
    if (id == kNoValue) return;
    kept_[static_cast<size_t>(id)] = true;
    kept_[static_cast<size_t>(graph.values[static_cast<size_t>(id)].memory)] = true;
  }
  void number(std::vector<Value>& values) {
    std::vector<Value> rest;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!kept_[i]) continue;
      new_ids_[i] = static_cast<ValueId>(rest.size());
      rest.push_back(std::move(values[i]));
    }
    values = std::move(rest);
    for (Value& value : values) value.memory = new_ids_[static_cast<size_t>(value.memory)];
  }
  void apply(ValueId& id) const {
    if (id != kNoValue) id = new_ids_[static_cast<size_t>(id)];
  }
  void apply(std::vector<ValueId>& ids) const {
    for (ValueId& id : ids) apply(id);
  }
  void apply(std::vector<Operand>& operands) const {
    for (Operand& operand : operands) apply(operand.values);
  }

 private:
  std::vector<bool> kept_;
  std::vector<ValueId> new_ids_;
};

bool same_number(const c10::IValue& a, const c10::IValue& b) {
  if (a.isDouble() && b.isDouble() && std::isnan(a.toDouble()) && std::isnan(b.toDouble())) {
    return true;
  }
  return a == b;
}

bool same_tensor(const Value& a, const Value& b) {
  if (a.sizes != b.sizes || a.dtype != b.dtype || a.strides != b.strides) return false;
  if (!a.tensor.defined() || !b.tensor.defined()) return a.tensor.defined() == b.tensor.defined();
  const bool same_memory =
      a.tensor.storage().unsafeGetStorageImpl() == b.tensor.storage().unsafeGetStorageImpl() &&
      a.offset == b.offset;
  // Numbers that the step makes are new tensors each time.
  return same_memory ||
         ((a.kind == ValueKind::kConstant || a.tensor.dim() == 0) && at::equal(a.tensor, b.tensor));
}

}  // namespace

void remove_dead(Trace& trace) {
  Graph& graph = trace.graph;
  const Liveness live(trace);
  std::vector<Node> nodes;
  std::vector<int32_t> new_nodes(graph.nodes.size(), -1);
  Numbering numbering(graph.values.size());
  const auto keep = [&](const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) numbering.keep(id, graph);
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!live.node(n)) continue;
    new_nodes[n] = static_cast<int32_t>(nodes.size());
    for (const Operand& each : graph.nodes[n].arguments) keep(each.values);
    for (const Operand& each : graph.nodes[n].results) keep(each.values);
    nodes.push_back(std::move(graph.nodes[n]));
  }
  keep(graph.inputs);
  keep(graph.outputs);
  for (const GradientEffect& effect : trace.effects) keep(effect.gradients);
  graph.nodes = std::move(nodes);
  numbering.number(graph.values);
  for (Value& value : graph.values) {
    if (value.node >= 0) value.node = new_nodes[static_cast<size_t>(value.node)];
  }
  for (Node& node : graph.nodes) {
    numbering.apply(node.arguments);
    numbering.apply(node.results);
    numbering.apply(node.written);
  }
  numbering.apply(graph.inputs);
  numbering.apply(graph.outputs);
  for (GradientEffect& effect : trace.effects) numbering.apply(effect.gradients);
}

std::optional<std::string> difference(const Graph& first, const Graph& second) {
  const size_t common = std::min(first.nodes.size(), second.nodes.size());
  for (size_t n = 0; n < common; ++n) {
    const Node& a = first.nodes[n];
    const Node& b = second.nodes[n];
    const auto operator_text = [&] {
      return str_cat("operator ", n + 1, ", ", a.name, describe_place(b), ", ");
    };
    if (a.name != b.name) {
      return str_cat("operator ", n + 1, " was ", a.name, " and is ", b.name, describe_place(b));
    }
    for (size_t i = 0; i < std::min(a.arguments.size(), b.arguments.size()); ++i) {
      const Operand& before = a.arguments[i];
      const Operand& now = b.arguments[i];
      if (before.kind != now.kind || before.values != now.values) {
        return operator_text() + "reads another tensor";
      }
      if (before.kind == Kind::kNumber && !same_number(before.number, now.number)) {
        return str_cat(operator_text(), "got the number ", before.number, " and gets ", now.number);
      }
    }
  }
  if (first.nodes.size() != second.nodes.size()) {
    return str_cat("it had ", first.nodes.size(), " operators and has ", second.nodes.size());
  }
  if (first.values.size() != second.values.size()) return "it reads other tensors";
  for (size_t i = 0; i < first.values.size(); ++i) {
    if (!same_tensor(first.values[i], second.values[i])) {
      return str_cat("it reads another tensor of ", second.values[i].dtype, " ",
                     at::IntArrayRef(second.values[i].sizes), ", or one with other elements");
    }
  }
  return std::nullopt;
}

}  // namespace strata::graph
