#pragma once

#include <vector>

#include "strata/ps/placement.h"

namespace strata::ps {

/// The variables of tf_cnn_benchmarks' inception3, in the order in which it makes them: for each
/// convolution its kernel and batch norm's offset (it has no scale), then the classifier's. The
/// model that the published scaling studies ran: 190 variables, 23.8 million parameters.
std::vector<VariableSpec> study_inception_v3();

}  // namespace strata::ps
