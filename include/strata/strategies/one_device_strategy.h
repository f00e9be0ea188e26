#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/strategies/strategy.h"

namespace strata {

struct OneDeviceOptions {
  std::string device = "cpu:0";
  /// The seed of the random streams; unset: libtorch's (torch::manual_seed).
  std::optional<uint64_t> seed = {};
  ReplicaOptions replicas = {};
};

/// One replica on a chosen device, through the same code as many: for trying out a distributed
/// program. Source: tf.distribute.OneDeviceStrategy.
class STRATA_API OneDeviceStrategy : public Strategy {
 public:
  explicit OneDeviceStrategy(const OneDeviceOptions& options = {});
};

}  // namespace strata
