#pragma once

#include <functional>
#include <string>

#include "tools/study/measurement.h"

namespace strata::tools {

/// Trains as the configuration says, in this process, with the other tasks of its cluster if it has
/// one, and measures it. All tasks make this call.
/// @param show  Gets lines of progress, in the chief.
/// @return what this task measured: of workers that train together, the speed of all.
/// @throws Error  as make_strategy, study_input and training.
Measurement measure_training(const Configuration& configuration,
                             const std::function<void(const std::string&)>& show);

}  // namespace strata::tools
