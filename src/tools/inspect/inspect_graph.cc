// `strata inspect model.graph`: a saved graph's inputs, outputs and weights, and how many nodes
// each operator has.
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

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

void print_values(const char* title, const std::vector<graph::ValueId>& ids,
                  const graph::InferenceGraph& inference) {
  for (const graph::ValueId id : ids) {
    if (id == graph::kNoValue) continue;
    const graph::Value& value = inference.graph.values[static_cast<size_t>(id)];
    std::cout << "  " << title << ": " << layout_of(value, inference.batch > 0) << '\n';
  }
}

void print_saved_graph(const InspectPath& path, const InspectOptions&) {
  const graph::LoadedGraph loaded = graph::load_graph(path.path);
  const graph::InferenceGraph& inference = loaded.graph();
  const graph::Graph& graph = inference.graph;
  std::cout << "  " << quoted(graph.name) << ", for "
            << (inference.batch > 0 ? "any number of examples" : "inputs of these sizes alone")
            << '\n';
  print_values("input", graph.inputs, inference);
  print_values("output", graph.outputs, inference);
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
