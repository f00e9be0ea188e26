#pragma once

#include <string>
#include <vector>

#include "core/cuda_driver.h"
#include "core/host_topology.h"

namespace strata::tools {

/// What `strata devices` prints, as it was found.
struct DevicesFound {
  std::string processor;   ///< "AMD EPYC 9R14"
  std::vector<int> cores;  ///< that this process may use
  HostTopology host;
  CudaDriver driver;
  std::string libtorch;    ///< "2.15.0"
  bool cuda = false;       ///< its CUDA part is linked
  int gpus = 0;            ///< that it sees, in the driver's order
  std::string why_no_gpu;  ///< where it sees none
  std::string nccl;        ///< "2.30.7", or empty
  std::string why_no_nccl;
};

/// A line for each of the processor, its NUMA nodes, the GPUs, libtorch and NCCL.
std::string devices_report(const DevicesFound& found);

/// "0-3,8", as parse_cpu_list reads it.
std::string cpu_list(const std::vector<int>& cores);

}  // namespace strata::tools
