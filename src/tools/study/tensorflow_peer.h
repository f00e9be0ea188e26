#pragma once

#include <string>
#include <vector>

#include "tools/study/configuration.h"

namespace strata::tools {

/// Why TensorFlow cannot train the configuration as strata does; empty: it can.
std::string why_not_in_tensorflow(const Configuration& configuration);

/// The command line of study_in_tensorflow.py, but for where it writes its result.
std::vector<std::string> tensorflow_words(const Configuration& configuration);

}  // namespace strata::tools
