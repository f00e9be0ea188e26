#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/runtime/devices.h"

namespace strata::detail {

/// The devices with these names; none: all GPUs, else every logical CPU.
/// @throws Error  kInvalidArgument: one twice. kNotFound. `strategy` is for messages.
std::vector<LogicalDevice> find_devices(std::string_view strategy,
                                        const std::vector<std::string>& names);

}  // namespace strata::detail
