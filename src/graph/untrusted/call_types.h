#pragma once

#include <string>

#include "strata/graph/graph.h"

namespace strata::graph::untrusted {

/// Empty: the operator exists here, and is given arguments of its schema's types. Else what is wrong with
/// the node.
std::string fault_of_call(const Node& node);

}  // namespace strata::graph::untrusted
