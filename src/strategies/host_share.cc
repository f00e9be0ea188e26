#include "strategies/host_share.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "cluster/cpu_partition.h"
#include "runtime/logical_cpus.h"
#include "strata/core/error.h"
#include "wire/host_identity.h"

namespace strata::detail {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

int node_at(const HostTopology& host, const std::string& address) {
  const auto found = std::ranges::find(host.gpus, address, &HostTopology::Gpu::address);
  return found != host.gpus.end() && !address.empty() ? found->node : -1;
}

Json write_gpus(const std::vector<HostGpu>& gpus) {
  Json json = Json::array();
  for (const HostGpu& gpu : gpus) {
    json.push_back(Json::object()
                       .set("name", gpu.name)
                       .set("card", gpu.card)
                       .set("node", gpu.node)
                       .set("device", gpu.device));
  }
  return json;
}

std::vector<HostGpu> read_gpus(const Json& json) {
  std::vector<HostGpu> gpus;
  for (const Json& gpu : json.as_array()) {
    gpus.push_back({.name = gpu.at("name").as_string(),
                    .card = gpu.at("card").as_string(),
                    .node = static_cast<int>(gpu.at("node").as_int()),
                    .device = static_cast<int>(gpu.at("device").as_int())});
  }
  return gpus;
}

std::vector<int> read_numbers(const Json& json) {
  std::vector<int> numbers;
  for (const Json& number : json.as_array()) numbers.push_back(static_cast<int>(number.as_int()));
  return numbers;
}

Json write_numbers(const std::vector<int>& numbers) {
  Json json = Json::array();
  for (const int number : numbers) json.push_back(number);
  return json;
}

/// A worker's cores at the NUMA nodes of the GPUs that it takes.
std::vector<int> cores_near(const HostResources& worker, const std::set<int>& nodes) {
  std::vector<int> near;
  for (size_t i = 0; i < std::min(worker.cores.size(), worker.core_nodes.size()); ++i) {
    if (nodes.contains(worker.core_nodes[i])) near.push_back(worker.cores[i]);
  }
  return near;
}

}  // namespace

std::vector<HostGpu> describe_gpus(int count, const std::optional<std::string>& visible,
                                   const CudaDriver& driver, const HostTopology& host) {
  const std::vector<std::string> names = parse_visible_devices(visible.value_or(""));
  const bool known = driver.gpus.size() == static_cast<size_t>(count);
  std::vector<HostGpu> gpus;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    HostGpu& gpu = gpus.emplace_back();
    gpu.name = at < names.size() ? names[at] : std::to_string(i);
    gpu.card = known && !driver.gpus[at].uuid.empty() ? driver.gpus[at].uuid : gpu.name;
    gpu.node = known ? node_at(host, driver.gpus[at].address) : -1;
    gpu.device = i;
  }
  return gpus;
}

std::vector<HostGpu> gpus_named(const std::vector<HostGpu>& gpus,
                                const std::vector<std::string>& names) {
  std::vector<HostGpu> named;
  std::ranges::copy_if(gpus, std::back_inserter(named), [&](const HostGpu& gpu) {
    return std::ranges::find(names, gpu.name) != names.end();
  });
  return named.empty() ? gpus : named;
}

HostResources HostResources::of_this_process() {
  HostResources resources{.machine = wire::machine_identity(),
                          .cores = cluster::cores_by_place(),
                          .core_nodes = {},
                          .gpus = {}};
  const auto count = static_cast<int>(list_physical_devices("GPU").size());
  if (count == 0) return resources;
  const HostTopology host = HostTopology::read();
  for (const int core : resources.cores) resources.core_nodes.push_back(host.node_of_core(core));
  resources.gpus =
      describe_gpus(count, variable("CUDA_VISIBLE_DEVICES"), CudaDriver::of_process(), host);
  return resources;
}

Json HostResources::to_json() const {
  return Json::object()
      .set("machine", machine)
      .set("cores", write_numbers(cores))
      .set("core_nodes", write_numbers(core_nodes))
      .set("gpus", write_gpus(gpus));
}

HostResources HostResources::from_json(const Json& json) {
  return {.machine = json.at("machine").as_string(),
          .cores = read_numbers(json.at("cores")),
          .core_nodes = read_numbers(json.at("core_nodes")),
          .gpus = read_gpus(json.at("gpus"))};
}

HostShare share_of(const std::vector<HostResources>& workers, size_t rank) {
  const HostResources& own = workers.at(rank);
  std::vector<const HostResources*> here;  // the workers of this machine
  std::vector<std::vector<int>> cores;
  std::vector<std::vector<int>> gpus;
  std::map<std::string, int> number_of_card;
  size_t place = 0;  // of this worker among them
  for (size_t i = 0; i < workers.size(); ++i) {
    const bool beside = workers[i].machine == own.machine && !own.machine.empty();
    if (i == rank) place = here.size();
    if (i != rank && !beside) continue;
    here.push_back(&workers[i]);
    cores.push_back(workers[i].cores);
    gpus.emplace_back();
    for (const HostGpu& gpu : workers[i].gpus) {
      const auto next = static_cast<int>(number_of_card.size());
      gpus.back().push_back(number_of_card.emplace(gpu.card, next).first->second);
    }
  }
  std::vector<std::vector<int>> taken = cluster::divide(gpus);
  std::vector<std::vector<int>> near;
  for (size_t i = 0; i < here.size(); ++i) {
    if (taken[i].empty() && !gpus[i].empty()) taken[i] = {gpus[i][i % gpus[i].size()]};
    std::set<int> nodes;
    for (const HostGpu& gpu : here[i]->gpus) {
      const bool takes = std::ranges::find(taken[i], number_of_card.at(gpu.card)) != taken[i].end();
      if (takes && gpu.node >= 0) nodes.insert(gpu.node);
    }
    near.push_back(cores_near(*here[i], nodes));
  }
  std::set<int> all_cores;
  for (const auto& each : cores) all_cores.insert(each.begin(), each.end());
  HostShare share{.cores = cluster::divide(cores, near)[place],
                  .gpus = {},
                  .all_cores = std::max(1, static_cast<int>(all_cores.size()))};
  for (const int card : taken[place]) {
    const auto found = std::ranges::find(gpus[place], card) - gpus[place].begin();
    share.gpus.push_back(own.gpus[static_cast<size_t>(found)].device);
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

Json GpusInUse::to_json() const {
  return Json::object()
      .set("machine", machine)
      .set("gpus", write_gpus(gpus))
      .set("may_share", may_share);
}

GpusInUse GpusInUse::from_json(const Json& json) {
  return {.machine = json.at("machine").as_string(),
          .gpus = read_gpus(json.at("gpus")),
          .may_share = json.at("may_share").as_bool()};
}

std::optional<SharedGpu> find_shared_gpu(const std::vector<GpusInUse>& workers) {
  std::map<std::pair<std::string, std::string>, std::pair<size_t, int>> users;  // of each card
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const GpusInUse& worker = workers[rank];
    if (worker.machine.empty()) continue;
    for (const HostGpu& gpu : worker.gpus) {
      const auto [first, alone] =
          users.try_emplace({worker.machine, gpu.card}, std::pair(rank, gpu.device));
      const auto [other, device] = first->second;
      if (alone || other == rank || (worker.may_share && workers[other].may_share)) continue;
      return SharedGpu{.first = other,
                       .second = rank,
                       .card = gpu.card,
                       .of_first = device,
                       .of_second = gpu.device};
    }
  }
  return std::nullopt;
}

bool shared_gpus_allowed() {
  const std::string wanted = variable("STRATA_SHARED_GPUS").value_or("");
  STRATA_CHECK(wanted.empty() || wanted == "allow" || wanted == "refuse", kInvalidArgument,
               "[multi_worker] STRATA_SHARED_GPUS: got '", wanted, "'; expected allow or refuse");
  return wanted == "allow";
}

}  // namespace strata::detail
