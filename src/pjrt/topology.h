#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "pjrt/plugin.h"

struct PJRT_TopologyDescription;

namespace strata::pjrt {

/// Devices that a plugin compiles for and that need not exist here: "v5e:2x4", by libtpu's names.
/// Threads: any.
class Topology {
 public:
  /// @throws Error  The plugin's: it knows no such topology, or none at all.
  Topology(std::shared_ptr<const Plugin> plugin, const std::string& name);

  /// Compiles StableHLO, as Client::compile does, for `num_replicas` devices.
  /// @return The executable in the plugin's own form, for a client with such devices.
  std::string compile(const std::string& program, int64_t num_replicas) const;

 private:
  std::shared_ptr<const Plugin> plugin_;
  std::shared_ptr<PJRT_TopologyDescription> topology_;
};

}  // namespace strata::pjrt
