#pragma once

#include <map>
#include <string_view>

#include "graph/stablehlo/node_lowering.h"

namespace strata::graph::stablehlo {

/// How an operator is written in StableHLO.
struct Rule {
  /// Gives a node's results. @throws Error  kUnimplemented, by NodeLowering::refuse.
  void (*lower)(NodeLowering& node) = nullptr;
  /// Of a view: the tensor that it is a part of, `whole`, after a write of `part` to it. Without it,
  /// writes follow the strides.
  Array (*put)(const NodeLowering& view, const Array& whole, const Array& part) = nullptr;
};

/// By operator, with its overload ("aten::max.dim") or for all of them ("aten::cat").
using Rules = std::map<std::string_view, Rule>;

const Rules& activation_rules();
const Rules& collective_rules();
const Rules& convolution_rules();
const Rules& creation_rules();
const Rules& elementwise_rules();
const Rules& index_rules();
const Rules& loss_rules();
const Rules& normalization_rules();
const Rules& pooling_rules();
const Rules& product_rules();
const Rules& random_rules();
const Rules& reduction_rules();
const Rules& resizing_rules();
const Rules& shape_rules();
const Rules& update_rules();

/// @return nullptr: no rule has that name.
const Rule* find_rule(std::string_view name);

}  // namespace strata::graph::stablehlo
