#include "tools/launch/gpu_shares.h"

#include <algorithm>
#include <numeric>

#include "cluster/cpu_partition.h"
#include "core/join.h"
#include "strata/core/error.h"

namespace strata::tools {
namespace {

using Names = std::vector<std::string>;

/// `count` of the GPUs, from the `first` on, and from the beginning again.
Names take(const Names& gpus, int first, int count) {
  Names names;
  for (int i = first; i < first + count; ++i) {
    names.push_back(gpus[static_cast<size_t>(i) % gpus.size()]);
  }
  return names;
}

}  // namespace

std::vector<std::string> visible_gpus(const HostTopology& host,
                                      const std::optional<std::string>& variable) {
  if (variable) return parse_visible_devices(*variable);
  Names names;
  for (size_t i = 0; i < host.usable_gpus().size(); ++i) names.push_back(std::to_string(i));
  return names;
}

std::vector<std::optional<Names>> share_gpus(const Names& gpus, int workers,
                                             const GpuSharing& sharing) {
  std::vector<std::optional<Names>> shares(static_cast<size_t>(workers));
  const int count = static_cast<int>(gpus.size());
  if (sharing.per_task) {
    const int each = *sharing.per_task;
    const int64_t needed = sharing.shared ? each : int64_t{each} * workers;
    STRATA_CHECK(needed <= count, kInvalidArgument, "[strata launch] got --gpus-per-task ", each,
                 " for ", workers, " workers", sharing.shared ? " that share GPUs" : "",
                 ", and this machine has ", count, " GPUs for them (",
                 count == 0 ? "see strata devices" : join(gpus), "); expected ", needed,
                 " at least: ask for fewer",
                 sharing.shared || each > count
                     ? ""
                     : ", start fewer workers, or let several use one with --share-gpus");
    for (int i = 0; i < workers; ++i) {
      shares[static_cast<size_t>(i)] = take(gpus, i * each, each);
    }
    return shares;
  }
  if (count >= workers) {
    std::vector<int> numbers(gpus.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    const auto parts = cluster::share_cores(numbers, workers);
    for (size_t i = 0; i < parts.size(); ++i) {
      shares[i] = take(gpus, parts[i].front(), static_cast<int>(parts[i].size()));
    }
  } else if (sharing.shared && count > 0) {
    for (int i = 0; i < workers; ++i) shares[static_cast<size_t>(i)] = take(gpus, i, 1);
  }
  return shares;
}

std::vector<int> cores_near(const HostTopology& host, const std::vector<std::string>& gpus) {
  std::vector<int> cores;
  for (const HostTopology::NumaNode& node : host.nodes) {
    const bool near = std::ranges::any_of(gpus, [&](const std::string& name) {
      const HostTopology::Gpu* const gpu = host.find_gpu(name);
      return gpu != nullptr && gpu->node == node.number;
    });
    if (near) cores.insert(cores.end(), node.cores.begin(), node.cores.end());
  }
  return cores;
}

}  // namespace strata::tools
