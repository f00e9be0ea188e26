#include "core/gpu_absence.h"

#include <cstdlib>

#include "core/join.h"
#include "strata/core/str_cat.h"

namespace strata {

GpuSupport GpuSupport::of_process(bool cuda_libtorch) {
  if (!cuda_libtorch) return {};  // which says it all: the driver need not be started
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  return {.cuda_libtorch = cuda_libtorch,
          .visible = visible != nullptr ? std::optional<std::string>(visible) : std::nullopt,
          .host = HostTopology::read(),
          .driver = CudaDriver::of_process()};
}

std::string why_no_gpu(const GpuSupport& support) {
  if (!support.cuda_libtorch) {
    return "this libtorch is built for CPUs alone: build strata with one for CUDA (make build "
           "PRESET=cuda, docs/gpu.md)";
  }
  const auto& gpus = support.host.gpus;
  if (gpus.empty() && support.driver.gpus.empty()) {
    return str_cat("this machine has no NVIDIA GPU: none is on its PCI bus",
                   support.driver.found ? "" : ", and NVIDIA's driver is not installed",
                   "; run it where there is one (a container: with the GPUs handed to it)");
  }
  const std::string cards = join(gpus, [](const HostTopology::Gpu& gpu) { return gpu.address; });
  if (!support.driver.found) {
    return str_cat("NVIDIA's driver is missing, and this machine has a GPU (PCI ", cards,
                   "): ", support.driver.problem,
                   "; install the driver, so that nvidia-smi lists the GPU (a container: start it "
                   "with NVIDIA's container toolkit)");
  }
  if (support.visible && parse_visible_devices(*support.visible).empty()) {
    return str_cat("CUDA_VISIBLE_DEVICES='", *support.visible,
                   "' hides every GPU; unset it, or list those to use: CUDA_VISIBLE_DEVICES=0");
  }
  if (support.driver.gpus.empty()) {
    return str_cat(
        "NVIDIA's driver shows no GPU (", support.driver.problem,
        support.visible ? str_cat("; CUDA_VISIBLE_DEVICES='", *support.visible, "'") : "",
        "); check nvidia-smi, and whether this user or container may open /dev/nvidia*");
  }
  return str_cat("NVIDIA's driver runs CUDA ", support.driver.cuda_version / 1000, ".",
                 support.driver.cuda_version % 1000 / 10,
                 " at most; install a newer driver, or an older libtorch (docs/gpu.md)");
}

}  // namespace strata
