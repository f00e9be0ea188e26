#include "tools/devices/devices_report.h"

#include <gtest/gtest.h>

#include "support/made_host.h"

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

TEST(DevicesReportTest, CoresAreWrittenAsLinuxDoes) {
  EXPECT_EQ(cpu_list({3, 0, 1, 8}), "0-1,3,8");
  EXPECT_EQ(cpu_list({}), "");
}

}  // namespace
}  // namespace strata::tools
