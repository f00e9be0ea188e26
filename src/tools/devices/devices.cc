// strata-devices, which `strata devices` runs: what this machine has, and what this build of strata sees of it.
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/headeronly/version.h>

#include <iostream>

#include "cluster/cpu_partition.h"
#include "collective/nccl/nccl_library.h"
#include "core/cpu_model.h"
#include "runtime/why_no_gpu.h"
#include "strata/core/error.h"
#include "strata/runtime/devices.h"
#include "tools/command_line.h"
#include "tools/devices/devices_report.h"
#include "tools/exit_status.h"

namespace strata::tools {
namespace {

CommandHelp devices_help() {
  return {
      .usage = "strata devices",
      .description =
          R"(Prints what this machine has and what programs of this build of strata see: the processor and the cores that
this process may use, NUMA nodes with their cores, memory and GPUs, each GPU as programs name it (gpu:0),
with what NVIDIA's driver says of it, libtorch, and NCCL. Where there are no GPUs it says what is missing.
CUDA_VISIBLE_DEVICES and the affinity of the process count.
)"};
}

DevicesFound look() {
  DevicesFound found{.processor = cpu_model().name,
                     .cores = cluster::cores_by_place(),
                     .host = HostTopology::read(),
                     .driver = CudaDriver::of_process(),
                     .libtorch = TORCH_VERSION,
                     .cuda = at::detail::getCUDAHooks().hasCUDART(),
                     .gpus = static_cast<int>(list_physical_devices("GPU").size()),
                     .why_no_gpu = {},
                     .nccl = {},
                     .why_no_nccl = {}};
  if (found.gpus == 0) found.why_no_gpu = detail::why_no_gpu();
  if (const auto* const nccl = collective::nccl::find(&found.why_no_nccl)) {
    found.nccl =
        str_cat(nccl->version / 10000, ".", nccl->version / 100 % 100, ".", nccl->version % 100);
  }
  return found;
}

int run(int argc, char** argv) {
  CommandLine line("strata devices", devices_help());
  if (!line.read({argv + 1, argv + argc})) {
    std::cout << line.help();
    return 0;
  }
  STRATA_CHECK(line.operands().empty(), kInvalidArgument, "[strata devices] got ",
               line.operands()[0], "; expected options alone");
  std::cout << devices_report(look());
  return 0;
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata", [&] { return strata::tools::run(argc, argv); });
}
