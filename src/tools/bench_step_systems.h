#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/bench_options.h"
#include "tools/bench_systems.h"

namespace strata::tools {

constexpr int kStepBatch = 64;  ///< Of each replica.

/// Every system of suite step for one case, strata's own included.
/// @param data  The file with the case's batches.
/// @param cpus  Two cores: the second one for systems of one core.
std::vector<SystemSpec> step_systems(const BenchOptions& options, const std::string& case_name,
                                     const std::filesystem::path& data,
                                     const std::vector<int>& cpus);

}  // namespace strata::tools
