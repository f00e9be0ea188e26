#include "graph/describe_node.h"

#include <charconv>
#include <string_view>
#include <system_error>

#include "graph/places.h"
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
  return text + describe_place(node) + ")";
}

std::string with_place(std::string message, const Graph& graph) {
  constexpr std::string_view kNode = "node ";
  for (size_t at = message.find(kNode); at != std::string::npos; at = message.find(kNode, at + 1)) {
    size_t n = 0;
    const char* const number = message.data() + at + kNode.size();
    const auto [end, error] = std::from_chars(number, message.data() + message.size(), n);
    if (error != std::errc() || n >= graph.nodes.size()) continue;
    const auto behind = static_cast<size_t>(end - message.data());
    const std::string name = str_cat(" (", graph.nodes[n].name, ")");
    if (message.compare(behind, name.size(), name) != 0) continue;
    message.insert(behind + name.size() - 1, describe_place(graph.nodes[n]));
    break;
  }
  return message;
}

}  // namespace strata::graph
