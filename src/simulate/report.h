#pragma once

#include <string>

#include "simulate/advice.h"
#include "simulate/scenario.h"
#include "strata/core/json.h"

namespace strata::simulate {

/// One scenario's report for people: time a step by part, causes, what to change.
std::string report_text(const Scenario& scenario, const StepReport& report);

/// The same for programs, seconds and bytes.
Json report_json(const Scenario& scenario, const StepReport& report);

}  // namespace strata::simulate
