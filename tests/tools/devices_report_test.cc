#include "tools/devices/devices_report.h"

#include <gtest/gtest.h>

#include "support/made_host.h"
#include "tools/devices/sums_report.h"

namespace strata::tools {
namespace {

DevicesFound two_cores() {
  DevicesFound found;
  found.processor = "A Processor";
  found.cores = {0, 1};
  found.libtorch = "2.15.0";
  found.why_no_gpu = "this machine has no NVIDIA GPU";
  found.why_no_nccl = "libnccl.so.2: cannot open";
  return found;
}

TEST(DevicesReportTest, WithoutGpusItSaysWhatIsMissing) {
  test::MadeHost host;
  host.add_node(0, "0-1", 23 << 20);
  DevicesFound found = two_cores();
  found.host = HostTopology::read(host.root());
  EXPECT_EQ(devices_report(found),
            "cpu        A Processor, 2 cores for this process (0-1)\n"
            "numa 0     cores 0-1, 23.0 GiB\n"
            "gpu        none: this machine has no NVIDIA GPU\n"
            "libtorch   2.15.0, for CPUs alone\n"
            "nccl       none: libnccl.so.2: cannot open\n");
}

TEST(DevicesReportTest, GpusAreAtTheirNodes) {
  test::MadeHost host;
  host.add_node(0, "0,2-3").add_node(1, "1");
  host.load_driver("580.82.07");
  host.add_gpu("0000:1a:00.0", {.node = 1, .minor = 0});
  DevicesFound found = two_cores();
  found.host = HostTopology::read(host.root());
  found.driver = {.found = true,
                  .problem = {},
                  .cuda_version = 13020,
                  .gpus = {{.name = "NVIDIA H100",
                            .uuid = "GPU-a",
                            .address = "0000:1a:00.0",
                            .memory = int64_t{85} * 1000 * 1000 * 1000,
                            .major = 9,
                            .minor = 0}}};
  found.cuda = true;
  found.gpus = 1;
  found.nccl = "2.30.7";
  EXPECT_EQ(devices_report(found),
            "cpu        A Processor, 2 cores for this process (0-1)\n"
            "numa 0     cores 0,2-3, 1.0 GiB\n"
            "numa 1     cores 1, 1.0 GiB, gpu:0\n"
            "gpu:0      NVIDIA H100, 79.2 GiB, compute capability 9.0, PCI 0000:1a:00.0, NUMA node "
            "1, GPU-a\n"
            "driver     580.82.07, CUDA 13.2\n"
            "libtorch   2.15.0, with CUDA\n"
            "nccl       2.30.7\n");
  // A build for CPUs alone on the same machine.
  found.cuda = false;
  found.gpus = 0;
  EXPECT_NE(devices_report(found).find("gpu        none: this machine has no NVIDIA GPU\n"
                                       "           the driver has NVIDIA H100, 79.2 GiB"),
            std::string::npos)
      << devices_report(found);
}

TEST(DevicesReportTest, SumsAreComparedWithAnyOrder) {
  const std::vector<collective::SumTiming> timings = {
      {.way = "copies, fixed order",
       .sizes = {{.bytes = 1 << 20, .median = 5e-5, .low = 4.5e-5, .high = 6e-5},
                 {.bytes = 25 << 20, .median = 2e-3, .low = 1.9e-3, .high = 2.5e-3}}},
      {.way = "NCCL, any order",
       .sizes = {{.bytes = 1 << 20, .median = 4e-5, .low = 4e-5, .high = 4e-5}}}};
  EXPECT_EQ(
      sums_report({"gpu:0", "gpu:1"}, timings),
      "\nall-reduce of float32 between gpu:0, gpu:1: median time of a call (quartiles), bytes / "
      "time, time against that of NCCL, any order\n"
      "copies, fixed order  1 MiB    50.0 us (45.0-60.0)        20.97 GB/s  1.25x\n"
      "copies, fixed order  25 MiB   2.00 ms (1.90-2.50)        13.11 GB/s\n"
      "NCCL, any order      1 MiB    40.0 us (40.0-40.0)        26.21 GB/s  1.00x\n");
  EXPECT_NE(sums_report({}, {{.way = "NCCL, any order", .why_not = "it is not there"}})
                .find("NCCL, any order      none: it is not there\n"),
            std::string::npos);
}

TEST(DevicesReportTest, CoresAreWrittenAsLinuxDoes) {
  EXPECT_EQ(cpu_list({3, 0, 1, 8}), "0-1,3,8");
  EXPECT_EQ(cpu_list({}), "");
}

}  // namespace
}  // namespace strata::tools
