#pragma once

#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/ps/placement_strategy.h"

namespace strata::ps {

/// The placement of tf_cnn_benchmarks: a variable is placed on the device with the fewest elements
/// so far, the first of several; bytes are not considered. A variable with a device of its own
/// keeps it and is not counted. Copies are independent. Threads: one at a time.
class STRATA_API ParamServerDeviceSetter {
 public:
  /// @throws Error  kInvalidArgument: no `ps_devices`.
  explicit ParamServerDeviceSetter(std::vector<std::string> ps_devices);

  /// @throws Error  kInvalidArgument: the shape has an unknown size.
  std::string operator()(const VariableSpec& variable);

 private:
  std::vector<std::string> ps_devices_;
  GreedyLoadBalancingStrategy strategy_;
};

}  // namespace strata::ps
