#pragma once

#include <filesystem>
#include <vector>

#include "suites/options.h"
#include "suites/step_cases.h"
#include "suites/systems.h"
#include "tools/launch/port_reservation.h"

namespace strata::bench {

constexpr int kStepPorts = 10;  ///< That the systems of several workers need for one case.

/// Every system of suite step for a loop around a small network, strata's own included.
/// @param data  The file with the case's batches.
/// @param cpus  Two cores: the second one for systems of one core.
/// @param ports  For workers, kStepPorts of them.
std::vector<SystemSpec> step_systems(const BenchOptions& options, const StepCase& step_case,
                                     const std::filesystem::path& data,
                                     const std::vector<int>& cpus,
                                     const tools::PortReservation& ports);

}  // namespace strata::bench
