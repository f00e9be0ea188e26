#pragma once

#include <string>
#include <vector>

#include "simulate/scenario.h"

namespace strata::simulate {

/// Where a step's time is lost, in sentences: which server, which variable, which buckets.
std::vector<std::string> causes(const Scenario& scenario, const StepReport& report);

/// A change of the scenario, and what the simulation says of it.
struct Advice {
  std::string change;  ///< as an option: "--placement sharded"
  std::string reason;
  double efficiency = 0;
  double step_seconds = 0;
};

/// Changes that raise the efficiency by more than a percentage point, the best first; each was
/// simulated.
std::vector<Advice> advise(const Scenario& scenario, const StepReport& report);

}  // namespace strata::simulate
