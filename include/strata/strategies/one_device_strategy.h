#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/strategies/strategy.h"

namespace strata {

struct OneDeviceOptions {
  std::string device = "cpu:0";
  /// Of the random streams; unset: libtorch's (torch::manual_seed).
  std::optional<uint64_t> seed = {};
  ReplicaOptions replicas = {};
};

/// One replica on the device of choice, through the same code as many: to try a distributed program
/// out. Source: tf.distribute.OneDeviceStrategy.
class STRATA_API OneDeviceStrategy : public Strategy {
 public:
  explicit OneDeviceStrategy(const OneDeviceOptions& options = {});
};

}  // namespace strata
