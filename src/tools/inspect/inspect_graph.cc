// `strata inspect model.graph`: a saved graph's inputs, outputs and weights, and how many nodes
// each operator has.
#include <cstdint>
#include <iostream>
#include <map>
#include <string>

#include "strata/core/str_cat.h"
#include "strata/graph/saved_graph.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

bool is_saved_graph(const InspectPath& path) { return path.start.starts_with("STRATAGR"); }

/// "float [batch, 10]"
std::string layout_of(const graph::Value& value, bool any_batch) {
  std::string sizes;
  for (size_t d = 0; d < value.sizes.size(); ++d) {
    sizes += d == 0 ? "" : ", ";
    sizes += d == 0 && any_batch ? "batch" : std::to_string(value.sizes[d]);
  }
  return str_cat(value.dtype, " [", sizes, "]");
}

void print_saved_graph(const InspectPath& path, const InspectOptions&) {
  const graph::LoadedGraph loaded = graph::load_graph(path.path);
  const graph::InferenceGraph& inference = loaded.graph();
  const graph::Graph& graph = inference.graph;
  const bool any_batch = inference.batch > 0;
  std::cout << "  " << quoted(graph.name) << ", for "
            << (any_batch ? "any number of examples" : "inputs of these sizes alone") << '\n';
  for (const graph::ValueId id : graph.inputs) {
    if (id != graph::kNoValue) {
      std::cout << "  input: " << layout_of(graph.values[static_cast<size_t>(id)], any_batch)
                << '\n';
    }
  }
  for (const graph::ValueId id : graph.outputs) {
    if (id != graph::kNoValue) {
      std::cout << "  output: " << layout_of(graph.values[static_cast<size_t>(id)], any_batch)
                << '\n';
    }
  }
  int64_t weights = 0;
  int64_t elements = 0;
  for (const graph::Value& value : graph.values) {
    if (!value.tensor.defined()) continue;
    ++weights;
    elements += value.tensor.numel();
  }
  std::map<std::string, int64_t> operators;
  for (const graph::Node& node : graph.nodes) ++operators[node.name];
  std::cout << "  " << counted(weights, "weight") << " of " << counted(elements, "element") << ", "
            << counted(static_cast<int64_t>(graph.nodes.size()), "node") << ":\n";
  for (const auto& [name, count] : operators) {
    std::cout << "    " << count << ' ' << quoted(name) << '\n';
  }
}

}  // namespace

const InspectKind kInspectGraph = {
    .name = "saved graph", .recognises = is_saved_graph, .print = print_saved_graph};

}  // namespace strata::tools
