// More of it, against TensorFlow itself, is in placement_golden_test.cc.
#include "strata/ps/device_setter.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace strata::ps {
namespace {

TEST(ReplicaDeviceSetterTest, VariablesGoToServersTheRestToTheWorker) {
  const cluster::ClusterSpec spec = {{"ps", {"a:1", "b:1"}}, {"worker", {"c:1", "d:1"}}};
  ReplicaDeviceSetter device =
      replica_device_setter({.cluster = spec, .worker_device = "/job:worker/task:1"});
  EXPECT_EQ(device({.name = "v", .shape = {4}}), "/job:ps/task:0");
  EXPECT_EQ(device({.name = "w", .shape = {4}}), "/job:ps/task:1");
  EXPECT_EQ(device.compute_device(), "/job:worker/task:1");
  EXPECT_EQ(device.compute_device("gpu:0"), "/job:worker/task:1/device:GPU:0");
}

TEST(ReplicaDeviceSetterTest, OtherJobsAreNotCounted) {
  ReplicaDeviceSetter device = replica_device_setter({.ps_tasks = 2});
  EXPECT_EQ(device({.name = "a", .device = "/job:worker"}), "/job:worker");
  EXPECT_EQ(device({.name = "b", .device = "/gpu:0"}), "/job:ps/task:0/device:GPU:0");
  EXPECT_EQ(device({.name = "c", .device = "/job:ps"}), "/job:ps/task:1");
}

TEST(ReplicaDeviceSetterTest, WithoutServersNothingIsPlaced) {
  const cluster::ClusterSpec spec = {{"worker", {"a:1"}}};
  for (ReplicaDeviceSetter device :
       {replica_device_setter({}), replica_device_setter({.cluster = spec, .ps_tasks = 3})}) {
    EXPECT_EQ(device({.name = "v"}), "");
    EXPECT_EQ(device({.name = "v", .device = "/gpu:1"}), "/device:GPU:1");
    EXPECT_EQ(device.compute_device(), "");
  }
}

TEST(ReplicaDeviceSetterTest, BadArgumentsSaySo) {
  expect_error([] { (void)replica_device_setter({.ps_tasks = -1}); },
               "[ps] replica_device_setter: got ps_tasks = -1; expected 0 (no servers) or more");
  EXPECT_THROW((void)replica_device_setter({.ps_tasks = 1, .ps_device = "/job:"}), Error);
  EXPECT_THROW((void)replica_device_setter({.ps_tasks = 1})({.name = "v", .device = "//"}), Error);
}

}  // namespace
}  // namespace strata::ps
