#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/device_name.h"
#include "strata/core/export.h"
#include "strata/ps/placement_strategy.h"

namespace strata::ps {

struct ReplicaDeviceSetterOptions {
  /// Says how many servers there are: the tasks of the job in `ps_device`. Before `ps_tasks`.
  std::optional<cluster::ClusterSpec> cluster = std::nullopt;
  int ps_tasks = 0;
  std::string ps_device = "/job:ps";          ///< of variables; empty: as everything else
  std::string worker_device = "/job:worker";  ///< of everything else; empty: no wish
  bool merge_devices = true;                  ///< false: a device that was asked for is taken as is
  PlacementStrategy ps_strategy = nullptr;    ///< null: `round_robin`
};

/// The classic form of placement, one device name at a time: variables to the servers, everything
/// else to the worker. What was asked for explicitly comes before both, part by part; a variable
/// for another job than the servers' is not counted by the strategy, one for `/job:ps` or `/gpu:0`
/// gets a task. Without servers names are left as they are.
///
///     auto device = replica_device_setter({.cluster = spec, .worker_device =
///     "/job:worker/task:1"}); device({.name = "kernel", .shape = {784, 128}});  // /job:ps/task:0
///
/// Copies go on by themselves. Threads: one at a time.
/// Source: tf.compat.v1.train.replica_device_setter.
class STRATA_API ReplicaDeviceSetter {
 public:
  /// @throws Error  kInvalidArgument: a device is not a name of one; `ps_tasks` is negative.
  explicit ReplicaDeviceSetter(ReplicaDeviceSetterOptions options);

  /// Where `variable` goes. Call it once a variable, in the order of creation.
  /// @throws Error  kInvalidArgument: `variable.device` is not a device's name. What the strategy
  ///   throws.
  std::string operator()(const VariableSpec& variable);

  /// Where anything else goes, for which `asked` was asked.
  std::string compute_device(std::string_view asked = "") const;

 private:
  bool active_;
  bool merge_devices_;
  std::optional<DeviceName> ps_device_;
  DeviceName worker_device_;
  PlacementStrategy ps_strategy_;
};

STRATA_API ReplicaDeviceSetter replica_device_setter(ReplicaDeviceSetterOptions options);

}  // namespace strata::ps
