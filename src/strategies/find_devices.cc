#include "strategies/find_devices.h"

#include <algorithm>

#include "strata/core/error.h"

namespace strata::detail {

std::vector<LogicalDevice> find_devices(std::string_view strategy,
                                        const std::vector<std::string>& names) {
  if (names.empty()) {
    std::vector<LogicalDevice> gpus = list_logical_devices("GPU");
    return gpus.empty() ? list_logical_devices("CPU") : gpus;
  }
  std::vector<LogicalDevice> devices;
  for (const std::string& name : names) {
    devices.push_back(find_device(name));
    const auto same = [&](const LogicalDevice& other) { return other.name == devices.back().name; };
    STRATA_CHECK(
        std::none_of(devices.begin(), devices.end() - 1, same), kInvalidArgument, "[", strategy,
        "] devices: got '", name,
        "' twice; expected each device once; for several replicas on one physical device call "
        "set_logical_devices first");
  }
  return devices;
}

}  // namespace strata::detail
