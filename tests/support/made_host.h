#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "strata/core/str_cat.h"
#include "support/temp_folder.h"

namespace strata::test {

/// The files of Linux's that describe a host, in a folder of its own: HostTopology::read(host.root()).
class MadeHost {
 public:
  struct Gpu {
    int node = 0;
    int minor = 0;
    std::string uuid = "GPU-0";
    std::string model = "NVIDIA Test";
    bool driver = true;
    bool device_file = true;
  };

  std::filesystem::path root() const { return folder_.path(); }

  MadeHost& add(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
    return *this;
  }
  MadeHost& add_node(int number, const std::string& cores, int64_t kib = 1 << 20) {
    const std::string node = str_cat("sys/devices/system/node/node", number);
    add(node + "/cpulist", cores);
    return add(node + "/meminfo", str_cat("Node ", number, " MemTotal:       ", kib, " kB"));
  }
  MadeHost& load_driver(const std::string& version) {
    return add("proc/driver/nvidia/version",
               str_cat("NVRM version: NVIDIA UNIX x86_64 Kernel Module  ", version,
                       "  Wed Aug 27 06:44:24 UTC 2025\nGCC version:  gcc version 12.2.0"));
  }
  MadeHost& add_gpu(const std::string& address, const Gpu& gpu) {
    const std::string device = "sys/bus/pci/devices/" + address;
    add(device + "/vendor", "0x10de").add(device + "/class", "0x030200");
    add(device + "/numa_node", std::to_string(gpu.node));
    if (!gpu.driver) return *this;
    add(str_cat("proc/driver/nvidia/gpus/", address, "/information"),
        str_cat("Model: \t\t ", gpu.model, "\nIRQ:   \t\t 42\nGPU UUID: \t ", gpu.uuid,
                "\nBus Location: \t ", address, "\nDevice Minor: \t ", gpu.minor));
    return gpu.device_file ? add(str_cat("dev/nvidia", gpu.minor), "") : *this;
  }

 private:
  TempFolder folder_;
};

}  // namespace strata::test
