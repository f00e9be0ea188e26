#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// What Linux says of this host's processors and of NVIDIA's GPUs, with or without a driver for them.
/// In a container it lists the host's GPUs, and knows by the device files which of them are usable.
struct HostTopology {
  struct NumaNode {
    int number = 0;
    std::vector<int> cores;
    int64_t memory = 0;  ///< bytes; 0: unknown
  };
  struct Gpu {
    std::string address;  ///< on the PCI bus, "0000:3b:00.0"; empty: unknown
    std::string model;    ///< as the driver says: "NVIDIA H100 80GB HBM3"; empty without one
    std::string uuid;     ///< "GPU-2d3f...", likewise
    int node = -1;        ///< its NUMA node; -1: unknown
    bool usable = false;  ///< has a device file here
  };

  std::vector<NumaNode> nodes;  ///< by number
  std::vector<Gpu> gpus;        ///< by address: the order of CUDA_DEVICE_ORDER=PCI_BUS_ID
  std::string driver;           ///< version of the kernel's module, "580.82.07"; empty: not loaded

  /// @param root  Holds sys/, proc/ and dev/; another than / in tests.
  static HostTopology read(const std::filesystem::path& root = "/");

  /// Those with a device file: CUDA numbers them.
  std::vector<Gpu> usable_gpus() const;

  /// The GPU that CUDA_VISIBLE_DEVICES names so: a number among the usable ones, or (the beginning of) a
  /// UUID. Null: none, or a part of one (MIG-...).
  const Gpu* find_gpu(std::string_view name) const;

  /// The number of the NUMA node that has `core`; -1: unknown.
  int node_of_core(int core) const;
};

/// Expands "0-3,8", as Linux lists processors; what it cannot read ends the list.
std::vector<int> parse_cpu_list(std::string_view list);

/// The names in a value of CUDA_VISIBLE_DEVICES. As in CUDA, an entry that names no device (-1, NoDevFiles)
/// hides those behind it.
std::vector<std::string> parse_visible_devices(std::string_view list);

}  // namespace strata
