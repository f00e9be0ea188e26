#pragma once

#include "strata/core/json.h"
#include "strata/tensor/rule_options.h"

namespace strata::tensor {

/// `{"rule":"adam","beta_1":0.9,...}`: what another process needs to make the same rule. Numbers
/// are exact.
Json rule_to_json(const RuleOptions& options);

/// The inverse. Options that `json` leaves out have their defaults.
/// @throws Error  kInvalidArgument: no such rule or option; names those there are. kDataLoss: not
///   an object, a value of another type.
RuleOptions rule_from_json(const Json& json);

}  // namespace strata::tensor
