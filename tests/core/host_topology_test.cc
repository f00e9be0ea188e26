#include "core/host_topology.h"

#include <gtest/gtest.h>

#include "support/made_host.h"

namespace strata {
namespace {

using test::MadeHost;

std::vector<std::string> addresses(const std::vector<HostTopology::Gpu>& gpus) {
  std::vector<std::string> all;
  for (const auto& gpu : gpus) all.push_back(gpu.address);
  return all;
}

TEST(HostTopologyTest, ReadsNodesAndGpusInTheirOrder) {
  MadeHost host;
  host.add_node(1, "4-5,7", 2'000).add_node(0, "0-3", 1'000);
  host.load_driver("580.82.07");
  host.add_gpu("0000:3b:00.0", {.node = 1, .minor = 0, .uuid = "GPU-b", .model = "NVIDIA H100"});
  host.add_gpu("0000:1a:00.0", {.node = 0, .minor = 1, .uuid = "GPU-a", .model = "NVIDIA A2"});
  host.add("sys/bus/pci/devices/0000:3b:00.1/vendor", "0x10de");  // its audio
  host.add("sys/bus/pci/devices/0000:3b:00.1/class", "0x040300");
  host.add("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086");
  host.add("sys/bus/pci/devices/0000:00:02.0/class", "0x030000");
  const HostTopology found = HostTopology::read(host.root());
  ASSERT_EQ(found.nodes.size(), 2U);
  EXPECT_EQ(found.nodes[0].cores, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(found.nodes[1].cores, (std::vector<int>{4, 5, 7}));
  EXPECT_EQ(found.nodes[1].memory, 2'000 * 1024);
  EXPECT_EQ(found.node_of_core(7), 1);
  EXPECT_EQ(found.node_of_core(6), -1);
  EXPECT_EQ(found.driver, "580.82.07");
  EXPECT_EQ(addresses(found.gpus), (std::vector<std::string>{"0000:1a:00.0", "0000:3b:00.0"}));
  EXPECT_EQ(found.gpus[0].model, "NVIDIA A2");
  EXPECT_EQ(found.gpus[1].uuid, "GPU-b");
  EXPECT_EQ(found.gpus[1].node, 1);
  EXPECT_EQ(addresses(found.usable_gpus()), addresses(found.gpus));
}

TEST(HostTopologyTest, AContainersGpusAreThoseWithADeviceFile) {
  MadeHost host;
  host.load_driver("580.82.07");
  host.add_gpu("0000:1a:00.0", {.minor = 0, .uuid = "GPU-a", .device_file = false});
  host.add_gpu("0000:3b:00.0", {.minor = 1, .uuid = "GPU-b"});
  host.add_gpu("0000:5c:00.0", {.minor = 2, .uuid = "GPU-c"});
  const HostTopology found = HostTopology::read(host.root());
  EXPECT_EQ(found.gpus.size(), 3U);
  EXPECT_EQ(addresses(found.usable_gpus()),
            (std::vector<std::string>{"0000:3b:00.0", "0000:5c:00.0"}));
  ASSERT_NE(found.find_gpu("1"), nullptr);  // CUDA's numbers are the container's own
  EXPECT_EQ(found.find_gpu("1")->uuid, "GPU-c");
  ASSERT_NE(found.find_gpu("GPU-b"), nullptr);
  EXPECT_EQ(found.find_gpu("GPU-b")->address, "0000:3b:00.0");
  for (const char* name : {"2", "GPU-a", "GPU-x", "MIG-1", "", "-1"}) {
    EXPECT_EQ(found.find_gpu(name), nullptr) << name;
  }
}

TEST(HostTopologyTest, WithoutADriverNoneIsUsable) {
  MadeHost host;
  host.add_gpu("0000:3b:00.0", {.node = -1, .driver = false});
  const HostTopology found = HostTopology::read(host.root());
  EXPECT_EQ(found.gpus.size(), 1U);
  EXPECT_TRUE(found.usable_gpus().empty());
  EXPECT_EQ(found.driver, "");
  EXPECT_EQ(found.gpus[0].node, -1);
}

TEST(HostTopologyTest, DeviceFilesAloneAreGpusToo) {
  MadeHost host;
  host.add("dev/nvidia0", "").add("dev/nvidia1", "").add("dev/nvidiactl", "");
  const HostTopology found = HostTopology::read(host.root());
  EXPECT_EQ(found.usable_gpus().size(), 2U);
  ASSERT_NE(found.find_gpu("1"), nullptr);
  EXPECT_EQ(found.find_gpu("1")->node, -1);
}

TEST(HostTopologyTest, AFolderWithoutAnythingHasNothing) {
  const HostTopology found = HostTopology::read(MadeHost().root());
  EXPECT_TRUE(found.nodes.empty());
  EXPECT_TRUE(found.gpus.empty());
}

TEST(HostTopologyTest, ListsOfProcessors) {
  using Cores = std::vector<int>;
  EXPECT_EQ(parse_cpu_list("0-2,8, 10-11\n"), (Cores{0, 1, 2, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list(""), Cores{});
  EXPECT_EQ(parse_cpu_list("3,x,5"), Cores{3});
  EXPECT_EQ(parse_cpu_list("0-99999999999"), Cores{});
}

TEST(HostTopologyTest, VisibleDevicesEndWhereCudasDo) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(parse_visible_devices("GPU-a, 1"), (Names{"GPU-a", "1"}));
  EXPECT_EQ(parse_visible_devices("0,-1,1"), Names{"0"});
  EXPECT_EQ(parse_visible_devices("NoDevFiles"), Names{});
  EXPECT_EQ(parse_visible_devices(""), Names{});
}

}  // namespace
}  // namespace strata
