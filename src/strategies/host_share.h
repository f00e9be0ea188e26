#pragma once

#include <string>
#include <vector>

#include "strata/core/json.h"
#include "strata/runtime/devices.h"

namespace strata::detail {

/// What a worker may use of its machine, as it tells the other workers of its job.
struct HostResources {
  std::string machine;            ///< wire::machine_identity(); empty: nothing is shared
  std::vector<int> cores;         ///< those with a common place beside each other
  std::vector<std::string> gpus;  ///< as CUDA_VISIBLE_DEVICES names them

  static HostResources of_this_process();
  Json to_json() const;
  static HostResources from_json(const Json& json);
};

/// What a worker uses of its machine beside the other workers there: the same shares in all
/// processes, however they were started.
struct HostShare {
  std::vector<int> cores;  ///< empty: there is not one for each worker; they take turns on all
  std::vector<int> gpus;   ///< numbers among those that this process sees
  int all_cores = 1;       ///< of the machine's workers together
};

/// @param workers  By rank.
HostShare share_of(const std::vector<HostResources>& workers, size_t rank);

/// The devices of a worker that names none: its share of the GPUs, else a logical CPU for each core
/// of its share, at least one, or as many as the program has divided the CPU into.
std::vector<LogicalDevice> devices_of(const HostShare& share);

}  // namespace strata::detail
