#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "strata/graph/graph.h"

namespace strata::graph {

/// @throws c10::Error  this program has no such operator.
inline c10::OperatorHandle operator_of(const Node& node) {
  const size_t dot = node.name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      node.name.substr(0, dot).c_str(),
      dot == std::string::npos ? "" : node.name.substr(dot + 1).c_str());
}

}  // namespace strata::graph
