#pragma once

#include <map>
#include <string_view>

#include "graph/onnx/node_export.h"

namespace strata::graph::onnx {

/// Gives a node's results. @throws Error  kUnimplemented, by NodeExport::refuse.
using Rule = void (*)(NodeExport& node);

/// By operator, with its overload ("aten::max.dim") or for all of them ("aten::cat").
using Rules = std::map<std::string_view, Rule>;

const Rules& elementwise_rules();
const Rules& layer_rules();
const Rules& recurrent_rules();
const Rules& reduction_rules();
const Rules& shape_rules();

/// @return nullptr: no rule has that name.
Rule find_rule(std::string_view name);

}  // namespace strata::graph::onnx
