#pragma once

#include <vector>

#include "simulate/scenario.h"

namespace strata::simulate {

/// One synchronous step. @param factors How much longer than alone each worker computes; one if
/// grouped.
StepReport parameter_server_step(const Scenario& scenario, const std::vector<double>& factors,
                                 bool grouped);

}  // namespace strata::simulate
