#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/host_topology.h"

namespace strata::tools {

/// The GPUs that programs started here would see, as CUDA_VISIBLE_DEVICES names them.
/// @param variable  That variable's value; nullopt: not set, and all that have a device file are seen.
std::vector<std::string> visible_gpus(const HostTopology& host,
                                      const std::optional<std::string>& variable);

/// Which GPUs the workers of one host get.
struct GpuSharing {
  std::optional<int> per_task = {};  ///< nullopt: as equal a number as can be
  bool shared = false;               ///< workers take them in turn where there are too few
};

/// Of each worker's environment, CUDA_VISIBLE_DEVICES: runs of neighbours. nullopt: it is left as it is,
/// where there are fewer GPUs than workers and nothing was asked for.
/// @throws Error  kInvalidArgument: there are too few for what was asked.
std::vector<std::optional<std::vector<std::string>>> share_gpus(
    const std::vector<std::string>& gpus, int workers, const GpuSharing& sharing = {});

/// The cores of the NUMA nodes that have these GPUs; empty: any will do.
std::vector<int> cores_near(const HostTopology& host, const std::vector<std::string>& gpus);

}  // namespace strata::tools
