#include "strata/strategies/mirrored_strategy.h"

#include <algorithm>

#include "strategies/default_seed.h"

namespace strata {
namespace {

std::vector<LogicalDevice> find_devices(const std::vector<std::string>& names) {
  if (names.empty()) {
    std::vector<LogicalDevice> gpus = list_logical_devices("GPU");
    return gpus.empty() ? list_logical_devices("CPU") : gpus;
  }
  std::vector<LogicalDevice> devices;
  for (const std::string& name : names) {
    devices.push_back(find_device(name));
    const auto same = [&](const LogicalDevice& other) { return other.name == devices.back().name; };
    STRATA_CHECK(
        std::none_of(devices.begin(), devices.end() - 1, same), kInvalidArgument,
        "[mirrored_strategy] devices: got '", name,
        "' twice; expected each device once; for several replicas on one physical device call "
        "set_logical_devices first");
  }
  return devices;
}

ReplicaGroupOptions group_options(const MirroredOptions& options) {
  ReplicaGroupOptions group;
  group.name = "mirrored_strategy";
  group.devices = find_devices(options.devices);
  group.cross_device_ops =
      options.cross_device_ops ? options.cross_device_ops : choose_cross_device_ops(group.devices);
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.timeout;
  group.permits = options.permits;
  group.threads_per_replica = options.threads_per_replica;
  group.share_storage = options.share_storage;
  group.pin_threads = options.pin_threads;
  return group;
}

}  // namespace

MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : Strategy(group_options(options)) {}

}  // namespace strata
