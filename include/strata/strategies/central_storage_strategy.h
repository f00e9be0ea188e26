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
  // What is computed.
  /// {"gpu:0", "gpu:1"}; a replica on each. Empty: all GPUs, else every logical CPU.
  std::vector<std::string> compute_devices = {};
  /// Where variables are, and are updated. Empty: the compute device if there is one, else "cpu:0".
  std::string parameter_device = {};
  /// Of the random streams; unset: libtorch's (torch::manual_seed).
  std::optional<uint64_t> seed = {};
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< Of a wait between replicas.

  // How fast.
  /// `share_storage = false`: each replica has mirrors, also where it could read the one copy.
  ReplicaOptions replicas = {};
};

/// Synchronous training with one copy of every variable, on one device, and a replica on each
/// compute device. Gradients are added, and the optimizer's rule runs, where the variables are; its
/// slots are there only. A replica on the same physical device (CPU replicas, with variables on the
/// CPU) reads the one copy itself; one on another device reads a mirror, which follows each write.
/// The weights are those of MirroredStrategy.
///
/// A replica may write to a variable only with an aggregation. Variables that are synchronized on
/// read (moving statistics, metrics) are the replicas' own all the same, on their devices.
///
/// When to take it rather than MirroredStrategy: docs/parameter_servers.md.
/// Source: tf.distribute.experimental.CentralStorageStrategy.
class STRATA_API CentralStorageStrategy : public Strategy {
 public:
  /// @throws Error  kInvalidArgument: a device named twice, or not a device name.
  ///                kNotFound: no such device; says how to make logical ones.
  explicit CentralStorageStrategy(const CentralStorageOptions& options = {});

  const LogicalDevice& parameter_device() const { return parameter_device_; }

 private:
  CentralStorageStrategy(const CentralStorageOptions& options, std::vector<LogicalDevice> compute,
                         const LogicalDevice& parameter_device);

  LogicalDevice parameter_device_;
};

}  // namespace strata
