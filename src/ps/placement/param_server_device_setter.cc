#include "strata/ps/device_setter.h"

#include <utility>

namespace strata::ps {

ParamServerDeviceSetter::ParamServerDeviceSetter(std::vector<std::string> ps_devices)
    : ps_devices_(std::move(ps_devices)),
      strategy_(static_cast<int>(ps_devices_.size()), element_count_load) {}

std::string ParamServerDeviceSetter::operator()(const VariableSpec& variable) {
  if (!variable.device.empty()) return variable.device;
  return ps_devices_[static_cast<size_t>(strategy_(variable))];
}

}  // namespace strata::ps
