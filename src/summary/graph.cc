#include "strata/summary/summary_writer.h"

#include <string_view>

#include "strata/core/error.h"

namespace strata::summary {
namespace {

// "^a/b" and "a/b:1" are a/b.
std::string_view node_of(std::string_view input) {
  if (input.starts_with('^')) input.remove_prefix(1);
  return input.substr(0, input.find(':'));
}

}  // namespace

GraphDef& GraphDef::add(GraphNode node) {
  STRATA_CHECK(!node.name.empty() && !node.op.empty(), kInvalidArgument,
               "[summary] GraphDef::add: got name \"", node.name, "\" and op \"", node.op,
               "\"; expected both");
  STRATA_CHECK(names_.insert(node.name).second, kInvalidArgument,
               "[summary] GraphDef::add: got a second node ", node.name,
               "; expected a name for each");
  nodes_.push_back(std::move(node));
  return *this;
}

void GraphDef::check_inputs() const {
  for (const GraphNode& node : nodes_) {
    for (const std::string& input : node.inputs) {
      STRATA_CHECK(names_.contains(std::string(node_of(input))), kInvalidArgument,
                   "[summary] graph: node ", node.name, ": got input ", input,
                   "; expected the name of a node");
    }
  }
}

}  // namespace strata::summary
