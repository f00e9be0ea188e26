#pragma once

#include <c10/core/ScalarType.h>

#include "strata/graph/graph.h"

namespace strata::graph {

/// What libtorch computes a comparison in: numbers and tensors without dimensions count less.
/// @param node  As a rule sees it: onnx::NodeExport, stablehlo::NodeLowering.
at::ScalarType comparison_dtype(const auto& node) {
  const Value& a = node.value(0);
  if (!node.is_tensor(1)) {
    const bool fraction = node.node().arguments[1].number.isDouble();
    return fraction && c10::isIntegralType(a.dtype, true) ? at::kFloat : a.dtype;
  }
  const Value& b = node.value(1);
  if (a.sizes.empty() != b.sizes.empty()) {
    const Value& main = a.sizes.empty() ? b : a;
    const Value& other = a.sizes.empty() ? a : b;
    if (!c10::isIntegralType(main.dtype, true) || c10::isIntegralType(other.dtype, true)) {
      return main.dtype;
    }
  }
  return c10::promoteTypes(a.dtype, b.dtype);
}

}  // namespace strata::graph
