#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "pjrt/plugin.h"

struct PJRT_Client;
struct PJRT_Event;

namespace strata::pjrt {

/// How long a wait for a device lasts at most, unless the caller says otherwise.
inline constexpr std::chrono::seconds kDefaultTimeout = std::chrono::minutes(30);

/// Waits for what the plugin does in the background, and frees the event, also where it throws.
/// @param what  Is waited for: "run".
/// @throws Error  kDeadlineExceeded: it has not happened after `timeout`. The plugin's error.
void wait_for(const Plugin& plugin, PJRT_Event* event, std::string_view what,
              std::chrono::milliseconds timeout = kDefaultTimeout);

/// What the plugin does in the background, such as a run on one device. Copies are the same event.
/// Threads: any.
class Event {
 public:
  /// @param client  Is kept alive as long.
  Event(std::shared_ptr<const Plugin> plugin, std::shared_ptr<PJRT_Client> client,
        PJRT_Event* event);

  /// Whether it has happened, or failed.
  bool is_ready() const;
  /// @throws as `wait_for`. It may be waited for again.
  void wait(std::string_view what, std::chrono::milliseconds timeout = kDefaultTimeout) const;

 private:
  std::shared_ptr<const Plugin> plugin_;
  std::shared_ptr<PJRT_Event> event_;
};

}  // namespace strata::pjrt
