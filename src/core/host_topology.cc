#include "core/host_topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <system_error>

namespace strata {
namespace {

namespace fs = std::filesystem;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(begin);
  text.remove_suffix(text.size() - (text.find_last_not_of(kSpace) + 1));
  return text;
}

// "" where there is no such file.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(trimmed(line));
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code none;  // no such folder: no names
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<HostTopology::NumaNode> read_nodes(const fs::path& root) {
  std::vector<HostTopology::NumaNode> nodes;
  const fs::path folder = root / "sys/devices/system/node";
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with("node")) continue;
    const auto which = number(std::string_view(name).substr(4));
    if (!which) continue;
    HostTopology::NumaNode& node = nodes.emplace_back();
    node.number = *which;
    node.cores = parse_cpu_list(first_line(folder / name / "cpulist"));
    std::ifstream memory(folder / name / "meminfo");  // "Node 0 MemTotal:  23000000 kB"
    for (std::string word; memory >> word;) {
      if (word != "MemTotal:") continue;
      constexpr int64_t kKib = 1024;
      if (memory >> node.memory) node.memory *= kKib;
      break;
    }
  }
  std::ranges::sort(nodes, {}, &HostTopology::NumaNode::number);
  return nodes;
}

/// What the driver says of the GPU at one address: lines as "Model: \t NVIDIA H100 80GB HBM3".
/// @return its minor number; nullopt without a driver.
std::optional<int> ask_driver(const fs::path& information, HostTopology::Gpu& gpu) {
  std::ifstream file(information);
  std::optional<int> minor;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = trimmed(std::string_view(line).substr(0, colon));
    const std::string_view value =
        trimmed(std::string_view(line).substr(colon).substr(colon < line.size() ? 1 : 0));
    if (name == "Model") gpu.model = value;
    if (name == "GPU UUID") gpu.uuid = value;
    if (name == "Device Minor") minor = number(value);
  }
  return minor;
}

// The N of the files /dev/nvidiaN.
std::vector<int> device_files(const fs::path& root) {
  std::vector<int> minors;
  constexpr std::string_view kPrefix = "nvidia";
  for (const std::string& name : names_in(root / "dev")) {
    if (!name.starts_with(kPrefix)) continue;
    if (const auto minor = number(std::string_view(name).substr(kPrefix.size()))) {
      minors.push_back(*minor);
    }
  }
  std::ranges::sort(minors);
  return minors;
}

std::vector<HostTopology::Gpu> read_gpus(const fs::path& root) {
  constexpr std::string_view kNvidia = "0x10de";
  constexpr std::string_view kDisplay =
      "0x03";  // a class: VGA and 3D controllers, not a GPU's audio
  const std::vector<int> files = device_files(root);
  const fs::path bus = root / "sys/bus/pci/devices";
  std::vector<HostTopology::Gpu> gpus;
  size_t with_a_file = 0;
  for (const std::string& address : names_in(bus)) {
    if (first_line(bus / address / "vendor") != kNvidia ||
        !first_line(bus / address / "class").starts_with(kDisplay)) {
      continue;
    }
    HostTopology::Gpu& gpu = gpus.emplace_back();
    gpu.address = address;
    gpu.node = number(first_line(bus / address / "numa_node")).value_or(-1);
    const auto minor = ask_driver(root / "proc/driver/nvidia/gpus" / address / "information", gpu);
    gpu.usable = minor && std::ranges::find(files, *minor) != files.end();
    if (gpu.usable) ++with_a_file;
  }
  // A sandbox that shows the device files alone.
  for (; with_a_file == 0 && gpus.size() < files.size();) gpus.emplace_back();
  for (size_t i = 0; with_a_file == 0 && i < files.size(); ++i) gpus[i].usable = true;
  return gpus;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed Aug 27 ..."
std::string driver_version(const fs::path& root) {
  std::ifstream file(root / "proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const size_t dot = word.find('.');
    if (dot != std::string::npos && number(word.substr(0, dot)) &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "";
}

}  // namespace

HostTopology HostTopology::read(const fs::path& root) {
  return {.nodes = read_nodes(root), .gpus = read_gpus(root), .driver = driver_version(root)};
}

std::vector<HostTopology::Gpu> HostTopology::usable_gpus() const {
  std::vector<Gpu> usable;
  std::ranges::copy_if(gpus, std::back_inserter(usable), &Gpu::usable);
  return usable;
}

const HostTopology::Gpu* HostTopology::find_gpu(std::string_view name) const {
  const auto wanted = number(name);
  int next = 0;
  for (const Gpu& gpu : gpus) {
    if (!gpu.usable) continue;
    if (wanted ? next++ == *wanted : !name.empty() && gpu.uuid.starts_with(name)) return &gpu;
  }
  return nullptr;
}

int HostTopology::node_of_core(int core) const {
  for (const NumaNode& node : nodes) {
    if (std::ranges::find(node.cores, core) != node.cores.end()) return node.number;
  }
  return -1;
}

std::vector<int> parse_cpu_list(std::string_view list) {
  constexpr int kMost = 1 << 16;
  std::vector<int> cores;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view part = trimmed(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    const size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last > kMost) break;
    for (int core = *first; core <= *last; ++core) cores.push_back(core);
  }
  return cores;
}

std::vector<std::string> parse_visible_devices(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = trimmed(list.substr(0, comma));
    if (name.empty() || name.starts_with('-') || name == "NoDevFiles") break;
    names.emplace_back(name);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

}  // namespace strata
