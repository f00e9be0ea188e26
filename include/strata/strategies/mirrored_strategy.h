#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/runtime/cross_device_ops.h"
#include "strata/strategies/strategy.h"

namespace strata {

struct MirroredOptions {
  // Results.
  /// {"cpu:0", "cpu:1"}; empty: all GPUs, else every logical CPU.
  std::vector<std::string> devices = {};
  /// The seed of the random streams; unset: libtorch's (torch::manual_seed).
  std::optional<uint64_t> seed = {};
  std::shared_ptr<CrossDeviceOps> cross_device_ops = {};  ///< Null: chosen for the devices.
  /// The limit of a wait between replicas.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);

  // Performance.
  ReplicaOptions replicas = {};
};

/// Synchronous training on the devices of this machine: a replica on each, every variable mirrored
/// on all, gradients summed over them in each step. With the same number of replicas and seed the
/// weights are the same bits on any cores of one kind, with any threads, run slots and storage.
/// Source: tf.distribute.MirroredStrategy.
class STRATA_API MirroredStrategy : public Strategy {
 public:
  /// @throws Error  kInvalidArgument: a device named twice, or not a device name.
  ///                kNotFound: no such device; tells how to make logical ones.
  explicit MirroredStrategy(const MirroredOptions& options = {});
};

}  // namespace strata
