#pragma once

#include <cstddef>
#include <string>

#include "strata/graph/graph.h"

namespace strata::graph {

/// For messages: "node 7 (aten::sort, Float [3, 4])".
std::string describe_node(const Graph& graph, size_t node);

}  // namespace strata::graph
