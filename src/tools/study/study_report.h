#pragma once

#include <string>
#include <vector>

#include "tools/study/study_point.h"

namespace strata::tools {

/// A table for people, a line a point, and below the best of each number of replicas where its time
/// goes.
std::string study_table(const std::vector<StudyPoint>& points);

/// The same as a page with charts: one file, which fetches nothing and runs no script.
std::string study_html(const std::vector<StudyPoint>& points);

}  // namespace strata::tools
