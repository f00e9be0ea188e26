#pragma once

#include <filesystem>
#include <vector>

#include "suites/interleaved.h"
#include "suites/options.h"
#include "suites/step_cases.h"
#include "suites/systems.h"

namespace strata::bench {

/// Every system of suite step for one case that trains a model, strata's own included.
/// @param data  The file with the case's batches. @param cpus  Two cores: the second one for
/// systems of one core.
std::vector<SystemSpec> step_model_systems(const BenchOptions& options, const StepCase& step_case,
                                           const std::filesystem::path& data,
                                           const std::vector<int>& cpus);

/// What is compared in such a case. @param against  Another build is measured, too.
std::vector<Ratio> step_model_ratios(const StepCase& step_case, bool against);

/// Adds systems `peak-1` and `peak-2`, which make the multiplications of `strata-1`'s step at the
/// peak of a core (of two) and nothing else, as limits of the others. None without `strata-1`.
void add_peaks(std::vector<SystemSpec>& systems);

}  // namespace strata::bench
