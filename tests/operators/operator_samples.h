#pragma once

#include <ATen/core/stack.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace strata::test {

/// Arguments for calls of one operator.
struct OperatorSamples {
  std::vector<torch::jit::Stack> calls;
  double tolerance = 1e-5;  ///< of the kernel's results from the decomposition's, of the largest
};

/// By name, "strata::rms_norm": each operator of this library has samples here.
const std::map<std::string, std::function<OperatorSamples()>>& operator_samples();

}  // namespace strata::test
