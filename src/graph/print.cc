// A graph as text, and for Graphviz.
#include <ostream>
#include <sstream>
#include <string_view>

#include "core/escaped.h"
#include "graph/places.h"
#include "strata/core/str_cat.h"
#include "strata/graph/graph.h"

namespace strata::graph {
namespace {

using Kind = Operand::Kind;

std::string value_name(ValueId id) { return id == kNoValue ? "none" : str_cat("%", id); }

void print_list(std::ostream& out, const std::vector<ValueId>& values) {
  out << '[';
  for (size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : ", ") << value_name(values[i]);
  out << ']';
}

void print_operand(std::ostream& out, const Operand& operand) {
  if (operand.kind == Kind::kNumber) {
    out << operand.number;
  } else if (operand.kind == Kind::kValue) {
    out << value_name(operand.values[0]);
  } else {
    print_list(out, operand.values);
  }
}

void print_operands(std::ostream& out, const std::vector<Operand>& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) out << ", ";
    print_operand(out, operands[i]);
  }
}

std::string type_of(const Value& value) {
  return str_cat(c10::toString(value.dtype), " ", c10::IntArrayRef(value.sizes));
}

std::string_view kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInput:
      return "input";
    case ValueKind::kCapture:
      return "capture";
    case ValueKind::kState:
      return "state";
    case ValueKind::kConstant:
      return "constant";
    case ValueKind::kResult:
      return "result";
  }
  return "unknown";
}

/// The first tensor that a node makes, for the type behind its line.
const Value* first_result(const Graph& graph, const Node& node) {
  for (const Operand& result : node.results) {
    for (const ValueId id : result.values) {
      if (id != kNoValue) return &graph.values[static_cast<size_t>(id)];
    }
  }
  return nullptr;
}

void print_graph(std::ostream& out, const Graph& graph, const PrintOptions& options) {
  out << "graph " << graph.name << '\n';
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.kind == ValueKind::kResult) continue;
    out << "  %" << id << " = " << kind_name(value.kind) << " : " << type_of(value) << '\n';
  }
  for (const Node& node : graph.nodes) {
    out << "  ";
    print_operands(out, node.results);
    out << (node.results.empty() ? "" : " = ") << node.name << '(';
    print_operands(out, node.arguments);
    out << ')';
    if (const Value* value = first_result(graph, node)) out << " : " << type_of(*value);
    if (options.places) out << describe_place(node);
    out << '\n';
  }
  out << "  return ";
  print_list(out, graph.outputs);
  out << '\n';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Graph& graph) {
  print_graph(out, graph, {});
  return out;
}

std::string to_string(const Graph& graph) { return to_string(graph, {}); }

std::string to_string(const Graph& graph, const PrintOptions& options) {
  std::ostringstream out;
  print_graph(out, graph, options);
  return out.str();
}

std::string to_dot(const Graph& graph) {
  std::ostringstream out;
  out << "digraph \"" << detail::escaped(graph.name) << "\" {\n  node [shape=box];\n";
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.kind == ValueKind::kResult) continue;
    out << "  v" << id << " [shape=ellipse, label=\"%" << id << ' ' << kind_name(value.kind)
        << "\\n"
        << type_of(value) << "\"];\n";
  }
  const auto source = [&](ValueId id) {
    const Value& value = graph.values[static_cast<size_t>(id)];
    return value.node < 0 ? str_cat("v", id) : str_cat("n", value.node);
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    out << "  n" << n << " [label=\"" << detail::escaped(node.name) << "\"];\n";
    for (const Operand& argument : node.arguments) {
      for (const ValueId id : argument.values) {
        if (id != kNoValue) out << "  " << source(id) << " -> n" << n << ";\n";
      }
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (graph.outputs[i] == kNoValue) continue;
    out << "  o" << i << " [shape=ellipse, label=\"output " << i << "\"];\n  "
        << source(graph.outputs[i]) << " -> o" << i << ";\n";
  }
  out << "}\n";
  return out.str();
}

}  // namespace strata::graph
