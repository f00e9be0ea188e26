#pragma once

#include <optional>
#include <string>

#include "core/cuda_driver.h"
#include "core/host_topology.h"

namespace strata {

/// What a program has for GPUs; `host` and `driver` in tests are made up.
struct GpuSupport {
  bool cuda_libtorch = false;          ///< libtorch's CUDA part is linked
  std::optional<std::string> visible;  ///< CUDA_VISIBLE_DEVICES
  HostTopology host;
  CudaDriver driver;

  static GpuSupport of_process(bool cuda_libtorch);
};

/// Why libtorch sees no GPU, and how to go on: the first that is missing of a build for GPUs, a card, its driver and
/// leave to use it. "this machine has no NVIDIA GPU (none on its PCI bus); run it where there is one".
std::string why_no_gpu(const GpuSupport& support);

}  // namespace strata
