#include "strata/strategies/one_device_strategy.h"

#include "runtime/replica_group.h"
#include "strategies/default_seed.h"

namespace strata {
namespace {

ReplicaGroupOptions group_options(const OneDeviceOptions& options) {
  ReplicaGroupOptions group;
  group.name = "one_device_strategy";
  group.devices = {find_device(options.device)};
  group.seed = options.seed.value_or(detail::default_seed());
  group.replicas = options.replicas;
  return group;
}

}  // namespace

OneDeviceStrategy::OneDeviceStrategy(const OneDeviceOptions& options)
    : Strategy(group_options(options)) {}

}  // namespace strata
