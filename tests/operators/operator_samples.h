#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace strata::test {

/// Arguments for calls of one operator.
struct OperatorSamples {
  std::vector<torch::jit::Stack> calls;
  double tolerance = 1e-5;  ///< of the kernel's results from the decomposition's, of the largest
  size_t halves =
      SIZE_MAX;  ///< Calls from this one on are of bfloat16: they differ by its rounding.

  double tolerance_of(size_t call) const { return call < halves ? tolerance : 2e-2; }
};

/// By name, "strata::rms_norm": each operator of this library has samples here.
const std::map<std::string, std::function<OperatorSamples()>>& operator_samples();

}  // namespace strata::test
