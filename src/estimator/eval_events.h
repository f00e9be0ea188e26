#pragma once

#include <map>
#include <optional>
#include <string>

#include "strata/estimator/estimator.h"

namespace strata::estimator::detail {

/// The evaluations in the event files of `folder`, by step: values of later files win. Empty: there
/// is no such folder.
std::map<int64_t, std::map<std::string, double>> evaluations_in(const std::string& folder);

}  // namespace strata::estimator::detail
