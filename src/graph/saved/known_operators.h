#pragma once

#include <string>

#include "strata/graph/graph.h"

namespace strata::graph::saved {

/// Empty: the node is one that a saved graph may have: an operator without effects beside its results
/// and arguments, that exists here and is given arguments of its schema's types. Else what is wrong with
/// it.
std::string fault_of_node(const Node& node);

}  // namespace strata::graph::saved
