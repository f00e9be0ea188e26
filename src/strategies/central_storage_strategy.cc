#include "strata/strategies/central_storage_strategy.h"

#include <utility>

#include "runtime/replica_group.h"
#include "strata/core/log.h"
#include "strata/runtime/cross_device_ops.h"
#include "strategies/central_placement.h"
#include "strategies/default_seed.h"
#include "strategies/find_devices.h"

namespace strata {
namespace {

constexpr const char* kName = "central_storage_strategy";

LogicalDevice choose_parameter_device(const std::vector<LogicalDevice>& compute,
                                      const std::string& wanted) {
  if (!wanted.empty()) return find_device(wanted);
  return compute.size() == 1 ? compute[0] : find_device("cpu:0");
}

// Null, the threads' own sum, where all are CPUs.
std::shared_ptr<CrossDeviceOps> reduce_to(const LogicalDevice& device,
                                          const std::vector<LogicalDevice>& compute) {
  if (!choose_cross_device_ops(compute)) return nullptr;
  return std::make_shared<ReductionToOneDevice>(
      ReductionToOneDevice::Options{.reduce_to_device = device.name});
}

ReplicaGroupOptions group_options(const CentralStorageOptions& options,
                                  std::vector<LogicalDevice> compute,
                                  const LogicalDevice& parameter_device) {
  ReplicaGroupOptions group;
  group.name = kName;
  group.cross_device_ops = reduce_to(parameter_device, compute);
  // One replica with its variables beside it needs nothing of this.
  const bool apart = compute.size() > 1 || compute[0].physical != parameter_device.physical;
  if (apart) {
    group.placement = std::make_shared<detail::CentralPlacement>(parameter_device.physical);
  }
  group.devices = std::move(compute);
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.timeout;
  group.replicas = options.replicas;
  return group;
}

}  // namespace

CentralStorageStrategy::CentralStorageStrategy(const CentralStorageOptions& options,
                                               std::vector<LogicalDevice> compute,
                                               const LogicalDevice& parameter_device)
    : Strategy(group_options(options, std::move(compute), parameter_device)),
      parameter_device_(parameter_device) {
  STRATA_LOG(kInfo) << Strategy::describe();
}

CentralStorageStrategy::CentralStorageStrategy(const CentralStorageOptions& options)
    : CentralStorageStrategy(
          options, detail::find_devices(kName, options.compute_devices),
          choose_parameter_device(detail::find_devices(kName, options.compute_devices),
                                  options.parameter_device)) {}

}  // namespace strata
