#pragma once

#include <map>
#include <string_view>

#include "graph/untrusted/call_rules.h"

namespace strata::graph::untrusted {

/// By operator, with its overload or for all of them.
using RuleTable = std::map<std::string_view, CallRule>;

const RuleTable& attention_rules();
const RuleTable& convolution_rules();
const RuleTable& elementwise_rules();
const RuleTable& image_rules();
const RuleTable& index_rules();
const RuleTable& loss_rules();
const RuleTable& normalization_rules();
const RuleTable& pooling_rules();
const RuleTable& product_rules();
const RuleTable& recurrent_rules();
const RuleTable& reduction_rules();

}  // namespace strata::graph::untrusted
