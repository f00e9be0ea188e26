// strata-devices, which `strata devices` runs: what this machine has, and what this build of strata sees of it.
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/headeronly/version.h>

#include <iostream>
#include <string>
#include <vector>

#include "cluster/cpu_partition.h"
#include "collective/nccl/nccl_library.h"
#include "core/cpu_model.h"
#include "runtime/why_no_gpu.h"
#include "strata/core/error.h"
#include "strata/runtime/devices.h"
#include "strategies/measure_cards.h"
#include "tools/command_line.h"
#include "tools/devices/devices_report.h"
#include "tools/devices/sums_report.h"
#include "tools/exit_status.h"

namespace strata::tools {
namespace {

CommandHelp devices_help() {
  return {
      .usage = "strata devices [--measure [--logical N]]",
      .description =
          R"(Prints what this machine has and what programs of this build of strata see: the processor and the cores that
this process may use, NUMA nodes with their cores, memory and GPUs, each GPU as programs name it (gpu:0),
with what NVIDIA's driver says of it, libtorch, and NCCL. Where there are no GPUs it says what is missing.
CUDA_VISIBLE_DEVICES and the affinity of the process count. With --measure it adds what sums between the GPUs take.
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

/// What sums between the machine's cards take.
std::string measure(const DevicesFound& found, int logical) {
  STRATA_CHECK(found.gpus > 0, kFailedPrecondition,
               "[strata devices] got --measure, and no GPU: ", found.why_no_gpu);
  STRATA_CHECK(
      found.gpus > 1 || logical > 1, kFailedPrecondition,
      "[strata devices] got --measure, and one GPU; expected several, between which there are "
      "sums, or --logical 2, which measures two logical GPUs of this one");
  if (logical > 1) set_logical_devices("gpu:0", logical);
  std::vector<LogicalDevice> devices;
  std::vector<std::string> names;
  const int count = logical > 1 ? logical : found.gpus;
  for (int i = 0; i < count; ++i) {
    names.push_back(str_cat("gpu:", i));
    devices.push_back(find_device(names.back()));
  }
  return sums_report(names, detail::measure_cards(devices));
}

int run(int argc, char** argv) {
  bool measures = false;
  int logical = 0;
  CommandLine line("strata devices", devices_help());
  line.flag("--measure",
            "also measures sums between the GPUs, for some seconds: what the fixed\n"
            "order costs (CommunicationOptions::order), by copies and by NCCL",
            measures);
  line.number("--logical", "N",
              "with --measure: between N logical GPUs of gpu:0, where there are no\n"
              "others; NCCL has no part in it",
              logical, 2);
  if (!line.read({argv + 1, argv + argc})) {
    std::cout << line.help();
    return 0;
  }
  STRATA_CHECK(line.operands().empty(), kInvalidArgument, "[strata devices] got ",
               line.operands()[0], "; expected options alone");
  STRATA_CHECK(measures || logical == 0, kInvalidArgument,
               "[strata devices] got --logical without --measure; expected both");
  const DevicesFound found = look();
  std::cout << devices_report(found);
  if (measures) std::cout << std::flush << measure(found, logical);
  return 0;
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata", [&] { return strata::tools::run(argc, argv); });
}
