#pragma once

#include <cstddef>
#include <string>

#include "strata/core/export.h"
#include "strata/graph/graph.h"

namespace strata::graph {

/// For messages: "node 7 (aten::sort, Float [3, 4]; called at net.cc:12 (Net::forward))".
std::string describe_node(const Graph& graph, size_t node);

/// A message from elsewhere that names a node, "node 7 (aten::sort) ...", with the place that this graph knows
/// of it: "node 7 (aten::sort; called at net.cc:12 (Net::forward)) ...".
STRATA_API std::string with_place(std::string message, const Graph& graph);

}  // namespace strata::graph
