#include "tools/devices/devices_report.h"

#include <algorithm>
#include <cmath>

#include "strata/core/str_cat.h"

namespace strata::tools {
namespace {

std::string line(std::string name, const std::string& text) {
  constexpr size_t kWidth = 11;
  name.resize(std::max(name.size() + 1, kWidth), ' ');
  return name + text + '\n';
}

// "79.6 GiB"
std::string gib(int64_t bytes) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const auto tenths = std::llround(static_cast<double>(bytes) / kGib * 10);
  return str_cat(tenths / 10, ".", tenths % 10, " GiB");
}

std::string counted(size_t count, const std::string& what) {
  return str_cat(count, " ", what, count == 1 ? "" : "s");
}

// The NUMA node of a GPU of the driver's; -1: unknown.
int node_of(const DevicesFound& found, const CudaDriver::Gpu& gpu) {
  for (const HostTopology::Gpu& each : found.host.gpus) {
    if (!gpu.address.empty() && each.address == gpu.address) return each.node;
  }
  return -1;
}

std::string gpus_of_node(const DevicesFound& found, int node) {
  std::string names;
  for (size_t i = 0; i < found.driver.gpus.size(); ++i) {
    if (node_of(found, found.driver.gpus[i]) == node) names += str_cat(", gpu:", i);
  }
  return names;
}

std::string describe(const DevicesFound& found, const CudaDriver::Gpu& gpu) {
  const int node = node_of(found, gpu);
  return str_cat(gpu.name, ", ", gib(gpu.memory), ", compute capability ", gpu.major, ".",
                 gpu.minor, ", PCI ", gpu.address, node >= 0 ? str_cat(", NUMA node ", node) : "",
                 ", ", gpu.uuid);
}

}  // namespace

std::string cpu_list(const std::vector<int>& cores) {
  std::vector<int> sorted = cores;
  std::ranges::sort(sorted);
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    text += str_cat(text.empty() ? "" : ",", sorted[i]);
    if (last > i) text += str_cat("-", sorted[last]);
    i = last + 1;
  }
  return text;
}

std::string devices_report(const DevicesFound& found) {
  std::string text = line("cpu", str_cat(found.processor.empty() ? "unknown" : found.processor,
                                         ", ", counted(found.cores.size(), "core"),
                                         " for this process (", cpu_list(found.cores), ")"));
  for (const HostTopology::NumaNode& node : found.host.nodes) {
    text +=
        line(str_cat("numa ", node.number),
             str_cat("cores ", cpu_list(node.cores), node.memory > 0 ? ", " + gib(node.memory) : "",
                     gpus_of_node(found, node.number)));
  }
  for (int i = 0; i < found.gpus; ++i) {
    const auto at = static_cast<size_t>(i);
    text += line(str_cat("gpu:", i), at < found.driver.gpus.size()
                                         ? describe(found, found.driver.gpus[at])
                                         : "the driver does not describe it");
  }
  if (found.gpus == 0) text += line("gpu", "none: " + found.why_no_gpu);
  // Without libtorch's CUDA part the driver may see some all the same.
  if (found.gpus == 0) {
    for (const CudaDriver::Gpu& gpu : found.driver.gpus) {
      text += line("", "the driver has " + describe(found, gpu));
    }
  }
  if (found.driver.found) {
    text += line("driver", str_cat(found.host.driver.empty() ? "" : found.host.driver + ", ",
                                   "CUDA ", found.driver.cuda_version / 1000, ".",
                                   found.driver.cuda_version % 1000 / 10));
  }
  text +=
      line("libtorch", str_cat(found.libtorch, found.cuda ? ", with CUDA" : ", for CPUs alone"));
  text += line("nccl", found.nccl.empty() ? "none: " + found.why_no_nccl : found.nccl);
  return text;
}

}  // namespace strata::tools
