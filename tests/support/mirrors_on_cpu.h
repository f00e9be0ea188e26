#pragma once

#include <memory>
#include <string>

#include "runtime/replica_group.h"
#include "strata/runtime/cross_device_ops.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/strategy.h"
#include "strategies/central_placement.h"
#include "support/replicas.h"

namespace strata {

/// CentralStorageStrategy as it is with variables on the CPU and replicas on GPUs: each replica has
/// mirrors of its own, here in other memory of the same CPU.
class MirrorsOnCpu : public Strategy {
 public:
  explicit MirrorsOnCpu(int replicas) : Strategy(options(replicas)) {}

 private:
  static ReplicaGroupOptions options(int replicas) {
    ReplicaGroupOptions group;
    group.name = "mirrors_on_cpu";
    for (const std::string& name : cpus(replicas)) group.devices.push_back(find_device(name));
    group.cross_device_ops = std::make_shared<ReductionToOneDevice>();
    group.placement = std::make_shared<detail::CentralPlacement>(find_device("cpu:0").physical);
    group.replicas.threads_per_replica = 1;
    group.replicas.share_storage = false;
    return group;
  }
};

}  // namespace strata
