#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cuda_driver.h"
#include "core/host_topology.h"
#include "strata/core/json.h"
#include "strata/runtime/devices.h"

namespace strata::detail {

/// A GPU as a worker sees it.
struct HostGpu {
  std::string name;  ///< as CUDA_VISIBLE_DEVICES names it
  std::string card;  ///< the driver's UUID, the same in all containers; without it, the name
  int node = -1;     ///< its NUMA node; -1: unknown
  int device = 0;    ///< its number in this process, as in gpu:0

  bool operator==(const HostGpu&) const = default;
};

/// The GPUs of a process that libtorch numbers from 0 to `count` - 1.
/// @param visible  CUDA_VISIBLE_DEVICES.
std::vector<HostGpu> describe_gpus(int count, const std::optional<std::string>& visible,
                                   const CudaDriver& driver, const HostTopology& host);

/// Those among `gpus` that are named; all where none of them is.
std::vector<HostGpu> gpus_named(const std::vector<HostGpu>& gpus,
                                const std::vector<std::string>& names);

/// What a worker may use of its machine, as it tells the other workers of its job.
struct HostResources {
  std::string machine;          ///< wire::machine_identity(); empty: nothing is shared
  std::vector<int> cores;       ///< those with a common place beside each other
  std::vector<int> core_nodes;  ///< the NUMA node of each; -1: unknown
  std::vector<HostGpu> gpus;

  static HostResources of_this_process();
  Json to_json() const;
  static HostResources from_json(const Json& json);
};

/// What a worker uses of its machine beside the other workers there: the same shares in all
/// processes, however they were started. Cores are near its GPUs where that can be.
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

/// The GPUs that a worker computes on, as it tells the others.
struct GpusInUse {
  std::string machine;
  std::vector<HostGpu> gpus;
  bool may_share = false;  ///< with another worker

  Json to_json() const;
  static GpusInUse from_json(const Json& json);
};

/// Two workers of one machine on one GPU.
struct SharedGpu {
  size_t first, second;  ///< ranks
  std::string card;
  int of_first, of_second;  ///< its number in each
};

/// The first pair that does not allow it; nullopt: none. @param workers  By rank.
std::optional<SharedGpu> find_shared_gpu(const std::vector<GpusInUse>& workers);

/// Whether STRATA_SHARED_GPUS lets this process use a GPU that another worker uses: `allow`; `refuse`
/// or nothing: it does not.
/// @throws Error  kInvalidArgument: another value.
bool shared_gpus_allowed();

}  // namespace strata::detail
