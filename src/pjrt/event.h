#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "pjrt/plugin.h"

struct PJRT_Event;

namespace strata::pjrt {

/// How long a wait for a device lasts at most, unless the caller says otherwise.
inline constexpr std::chrono::seconds kDefaultTimeout = std::chrono::minutes(30);

/// Waits for what the plugin does in the background, and frees the event, also where it throws.
/// @param what  Is waited for: "run".
/// @throws Error  kDeadlineExceeded: it has not happened after `timeout`. The plugin's error.
void wait_for(const Plugin& plugin, PJRT_Event* event, std::string_view what,
              std::chrono::milliseconds timeout = kDefaultTimeout);

}  // namespace strata::pjrt
