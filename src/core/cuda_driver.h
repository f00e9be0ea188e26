#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

/// What NVIDIA's driver says to programs. Its library, libcuda.so.1, comes with the driver alone, so it is opened
/// while the program runs; neither libtorch nor CUDA's headers are needed.
struct CudaDriver {
  struct Gpu {
    std::string name;  ///< "NVIDIA H100 80GB HBM3"
    std::string
        uuid;  ///< "GPU-2d3f...": the same in all processes and containers; a part of a GPU has its own
    std::string address;  ///< on the PCI bus, as in HostTopology
    int64_t memory = 0;   ///< bytes
    int major = 0;        ///< compute capability
    int minor = 0;
  };

  bool found = false;     ///< the library is there
  std::string problem;    ///< why `gpus` is empty, in the loader's words or the driver's
  int cuda_version = 0;   ///< the newest that it runs: 13020 is 13.2; 0: unknown
  std::vector<Gpu> gpus;  ///< in the order of CUDA's numbers; CUDA_VISIBLE_DEVICES counts

  /// The process's, asked once: later changes of CUDA_VISIBLE_DEVICES change nothing, as in CUDA. Threads: any.
  static const CudaDriver& of_process();
  /// @param library  Another in tests.
  static CudaDriver ask(const std::string& library);
};

}  // namespace strata
