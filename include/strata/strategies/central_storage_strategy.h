#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/strategies/strategy.h"

namespace strata {

struct CentralStorageOptions {
  // Results.
  /// {"gpu:0", "gpu:1"}; a replica on each. Empty: all GPUs, else every logical CPU.
  std::vector<std::string> compute_devices = {};
  /// The device of variables and their updates. Empty: the compute device if there is one, else
  /// "cpu:0".
  std::string parameter_device = {};
  /// The seed of the random streams; unset: libtorch's (torch::manual_seed).
  std::optional<uint64_t> seed = {};
  /// The limit of a wait between replicas.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);

  // Performance.
  /// `share_storage = false`: each replica has mirrors, also if it could read the one copy.
  ReplicaOptions replicas = {};
};

/// Synchronous training with one copy of every variable, on one device, and a replica on each
/// compute device. Gradients are added, and the optimizer's rule runs, on the variables' device,
/// which alone has the slots. A replica on the same physical device (CPU replicas, with variables
/// on the CPU) reads the one copy itself; one on another device reads a mirror, which follows each
/// write. The weights are those of MirroredStrategy.
///
/// A replica may write to a variable only with an aggregation. Variables that are synchronized on
/// read (moving statistics, metrics) are still the replicas' own, on their devices.
///
/// docs/parameter_servers.md compares it with MirroredStrategy.
/// Source: tf.distribute.experimental.CentralStorageStrategy.
class STRATA_API CentralStorageStrategy : public Strategy {
 public:
  /// @throws Error  kInvalidArgument: a device named twice, or not a device name.
  ///                kNotFound: no such device; tells how to make logical ones.
  explicit CentralStorageStrategy(const CentralStorageOptions& options = {});

  const LogicalDevice& parameter_device() const { return parameter_device_; }

 private:
  CentralStorageStrategy(const CentralStorageOptions& options, std::vector<LogicalDevice> compute,
                         const LogicalDevice& parameter_device);

  LogicalDevice parameter_device_;
};

}  // namespace strata
