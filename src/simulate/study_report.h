#pragma once

#include <string>
#include <string_view>

#include "simulate/published_study.h"
#include "strata/core/json.h"

namespace strata::simulate {

/// A study, published beside simulated: each point, what explains its loss, and strata's all-reduce
/// on the same links with the same overheads.
std::string study_text(std::string_view name, const FittedNumbers& numbers);
Json study_json(std::string_view name, const FittedNumbers& numbers);
/// Published as dots, simulated as lines.
std::string study_svg(std::string_view name, const FittedNumbers& numbers);

/// The point with strata's all-reduce in place of servers.
StepReport with_all_reduce(const SimulatedPoint& point);

}  // namespace strata::simulate
