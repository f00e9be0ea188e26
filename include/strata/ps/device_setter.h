#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/device_name.h"
#include "strata/core/export.h"
#include "strata/ps/placement.h"

namespace strata::ps {

struct ReplicaDeviceSetterOptions {
  /// Defines the number of servers: the tasks of the job in `ps_device`. Takes precedence over
  /// `ps_tasks`.
  std::optional<cluster::ClusterSpec> cluster = std::nullopt;
  int ps_tasks = 0;
  std::string ps_device = "/job:ps";          ///< for variables; empty: as for everything else
  std::string worker_device = "/job:worker";  ///< for everything else; empty: none
  bool merge_devices = true;                  ///< false: a requested device is used unchanged
  PlacementStrategy ps_strategy = nullptr;    ///< null: `round_robin`
};

/// The classic form of placement, one device name at a time: variables on the servers, everything
/// else on the worker. Requested parts of a name take precedence. A variable for another job than
/// the servers' is not counted by the strategy; one for `/job:ps` or `/gpu:0` gets a task. Without
/// servers names are unchanged.
///
///     auto device = replica_device_setter({.cluster = spec,
///                                          .worker_device = "/job:worker/task:1"});
///     device({.name = "kernel", .shape = {784, 128}});  // /job:ps/task:0
///
/// Copies are independent. Threads: one at a time.
/// Source: tf.compat.v1.train.replica_device_setter.
class STRATA_API ReplicaDeviceSetter {
 public:
  /// @throws Error  kInvalidArgument: a device is not a name of one; `ps_tasks` is negative.
  explicit ReplicaDeviceSetter(ReplicaDeviceSetterOptions options);

  /// Returns the device of `variable`. Call it once for each variable, in the order of creation.
  /// @throws Error  kInvalidArgument: `variable.device` is not a device's name. The strategy's
  /// errors.
  std::string operator()(const VariableSpec& variable);

  /// Returns the device of anything else, for the requested name `asked`.
  std::string compute_device(std::string_view asked = "") const;

 private:
  bool active_;
  bool merge_devices_;
  std::optional<DeviceName> ps_device_;
  DeviceName worker_device_;
  PlacementStrategy ps_strategy_;
};

STRATA_API ReplicaDeviceSetter replica_device_setter(ReplicaDeviceSetterOptions options);

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
