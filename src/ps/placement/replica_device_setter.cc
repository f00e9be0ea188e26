#include "strata/ps/device_setter.h"

#include <utility>

#include "strata/core/error.h"

namespace strata::ps {
namespace {

DeviceName parse_or_any(std::string_view device) {
  return device.empty() ? DeviceName{} : DeviceName::parse(device);
}

int count_servers(const ReplicaDeviceSetterOptions& options, const std::optional<DeviceName>& ps) {
  STRATA_CHECK(options.ps_tasks >= 0, kInvalidArgument,
               "[ps] replica_device_setter: got ps_tasks = ", options.ps_tasks,
               "; expected 0 (no servers) or more");
  if (!options.cluster) return options.ps_tasks;
  if (!ps || !ps->job || !options.cluster->has_job(*ps->job)) return 0;
  return options.cluster->num_tasks(*ps->job);
}

}  // namespace

ReplicaDeviceSetter::ReplicaDeviceSetter(ReplicaDeviceSetterOptions options)
    : merge_devices_(options.merge_devices),
      worker_device_(parse_or_any(options.worker_device)),
      ps_strategy_(std::move(options.ps_strategy)) {
  if (!options.ps_device.empty()) ps_device_ = DeviceName::parse(options.ps_device);
  const int servers = count_servers(options, ps_device_);
  active_ = servers > 0;
  if (active_ && !ps_strategy_) ps_strategy_ = round_robin(servers);
}

std::string ReplicaDeviceSetter::operator()(const VariableSpec& variable) {
  if (!active_ || !ps_device_ || (!merge_devices_ && !variable.device.empty()))
    return compute_device(variable.device);
  const DeviceName asked = parse_or_any(variable.device);
  DeviceName device = *ps_device_;
  if (device.job && (!asked.job || asked.job == device.job)) device.task = ps_strategy_(variable);
  return asked.merged_over(device).to_string();
}

std::string ReplicaDeviceSetter::compute_device(std::string_view asked) const {
  const DeviceName device = parse_or_any(asked);
  if (!active_ || (!merge_devices_ && !asked.empty())) return device.to_string();
  return device.merged_over(worker_device_).to_string();
}

ReplicaDeviceSetter replica_device_setter(ReplicaDeviceSetterOptions options) {
  return ReplicaDeviceSetter(std::move(options));
}

}  // namespace strata::ps
