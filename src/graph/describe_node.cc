#include "graph/describe_node.h"

#include "strata/core/str_cat.h"

namespace strata::graph {

std::string describe_node(const Graph& graph, size_t n) {
  const Node& node = graph.nodes[n];
  std::string text = str_cat("node ", n, " (", node.name);
  for (const Operand& argument : node.arguments) {
    for (const ValueId id : argument.values) {
      if (id == kNoValue) continue;
      const Value& value = graph.values[static_cast<size_t>(id)];
      text += str_cat(", ", value.dtype, " ", at::IntArrayRef(value.sizes));
    }
  }
  return text + ")";
}

}  // namespace strata::graph
