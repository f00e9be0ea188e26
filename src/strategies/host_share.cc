#include "strategies/host_share.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "cluster/cpu_partition.h"
#include "runtime/logical_cpus.h"
#include "wire/host_identity.h"

namespace strata::detail {
namespace {

std::vector<std::string> visible_gpus() {
  std::vector<std::string> names;
  const size_t count = list_physical_devices("GPU").size();
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string_view rest = visible != nullptr ? visible : "";
  while (!rest.empty() && names.size() < count) {
    const size_t comma = std::min(rest.find(','), rest.size());
    names.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  for (size_t i = names.size(); i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

HostResources HostResources::of_this_process() {
  return {.machine = wire::machine_identity(),
          .cores = cluster::cores_by_place(),
          .gpus = visible_gpus()};
}

Json HostResources::to_json() const {
  Json of_cores = Json::array();
  for (const int core : cores) of_cores.push_back(core);
  Json of_gpus = Json::array();
  for (const std::string& gpu : gpus) of_gpus.push_back(gpu);
  return Json::object()
      .set("machine", machine)
      .set("cores", std::move(of_cores))
      .set("gpus", std::move(of_gpus));
}

HostResources HostResources::from_json(const Json& json) {
  HostResources resources{.machine = json.at("machine").as_string(), .cores = {}, .gpus = {}};
  for (const Json& core : json.at("cores").as_array()) {
    resources.cores.push_back(static_cast<int>(core.as_int()));
  }
  for (const Json& gpu : json.at("gpus").as_array()) resources.gpus.push_back(gpu.as_string());
  return resources;
}

HostShare share_of(const std::vector<HostResources>& workers, size_t rank) {
  const HostResources& own = workers.at(rank);
  std::vector<std::vector<int>> cores;
  std::vector<std::vector<int>> gpus;
  std::map<std::string, int> number_of_gpu;
  size_t place = 0;  // of this worker among its machine's
  for (size_t i = 0; i < workers.size(); ++i) {
    const bool beside = workers[i].machine == own.machine && !own.machine.empty();
    if (i == rank) place = cores.size();
    if (i != rank && !beside) continue;
    cores.push_back(workers[i].cores);
    gpus.emplace_back();
    for (const std::string& name : workers[i].gpus) {
      const auto next = static_cast<int>(number_of_gpu.size());
      gpus.back().push_back(number_of_gpu.emplace(name, next).first->second);
    }
  }
  std::set<int> all_cores;
  for (const auto& each : cores) all_cores.insert(each.begin(), each.end());
  HostShare share{.cores = cluster::divide(cores)[place],
                  .gpus = {},
                  .all_cores = std::max(1, static_cast<int>(all_cores.size()))};
  const std::vector<int>& seen = gpus[place];
  std::vector<int> taken = cluster::divide(gpus)[place];
  if (taken.empty() && !seen.empty()) taken = {seen[place % seen.size()]};
  for (const int gpu : taken) {
    share.gpus.push_back(static_cast<int>(std::ranges::find(seen, gpu) - seen.begin()));
  }
  return share;
}

std::vector<LogicalDevice> devices_of(const HostShare& share) {
  std::vector<LogicalDevice> devices;
  for (const LogicalDevice& device : list_logical_devices("GPU")) {
    if (std::ranges::find(share.gpus, device.physical.index()) != share.gpus.end()) {
      devices.push_back(device);
    }
  }
  if (!devices.empty()) return devices;
  devices = list_logical_devices("CPU");
  const size_t most = std::max<size_t>(1, share.cores.size());
  if (!is_cpu_divided() && devices.size() > most) devices.resize(most, devices[0]);
  return devices;
}

}  // namespace strata::detail
