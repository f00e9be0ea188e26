#include "strata/strategies/mirrored_strategy.h"

#include "runtime/replica_group.h"
#include "strata/core/log.h"
#include "strategies/default_seed.h"
#include "strategies/find_devices.h"

namespace strata {
namespace {

ReplicaGroupOptions group_options(const MirroredOptions& options) {
  ReplicaGroupOptions group;
  group.name = "mirrored_strategy";
  group.devices = detail::find_devices(group.name, options.devices);
  group.cross_device_ops =
      options.cross_device_ops ? options.cross_device_ops : choose_cross_device_ops(group.devices);
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.timeout;
  group.replicas = options.replicas;
  return group;
}

}  // namespace

MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : Strategy(group_options(options)) {
  STRATA_LOG(kInfo) << Strategy::describe();
}

}  // namespace strata
