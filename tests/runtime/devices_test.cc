#include "strata/runtime/devices.h"

#include <gtest/gtest.h>

#include <utility>

#include "strata/runtime/per_replica.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"

namespace strata {
namespace {

class DevicesTest : public ::testing::Test {
 protected:
  void SetUp() override { set_logical_devices("cpu", 8); }
  void TearDown() override { set_logical_devices("cpu", 8); }
};

TEST_F(DevicesTest, OneCpuServesAnyNumberOfLogicalOnes) {
  EXPECT_EQ(list_physical_devices("CPU"), std::vector<c10::Device>{c10::Device("cpu")});
  for (const int count : {1, 3, 8, 100}) {
    set_logical_devices("cpu", count);
    const auto devices = list_logical_devices("CPU");
    ASSERT_EQ(devices.size(), static_cast<size_t>(count));
    const LogicalDevice& last = devices.back();
    EXPECT_EQ(last.name, str_cat("/job:localhost/replica:0/task:0/device:CPU:", count - 1));
    EXPECT_EQ(last.type, "CPU");
    EXPECT_EQ(last.index, count - 1);
    EXPECT_EQ(last.physical, c10::Device("cpu"));
  }
}

TEST_F(DevicesTest, NamesAreFoundInEveryForm) {
  for (const char* name : {"cpu:5", "CPU:5", "/device:CPU:5", "/cpu:5",
                           "/job:localhost/replica:0/task:0/device:CPU:5"}) {
    EXPECT_EQ(find_device(name).name, "/job:localhost/replica:0/task:0/device:CPU:5") << name;
  }
  EXPECT_EQ(find_device("cpu").index, 0);
}

TEST_F(DevicesTest, StrategiesThatExistKeepTheirDevices) {
  MirroredStrategy strategy({.devices = cpus(3)});
  set_logical_devices("cpu", 1);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 3);
  EXPECT_EQ(strategy.run([] { return get_replica_context()->device().index; }).get(2), 2);
}

TEST_F(DevicesTest, MissingDeviceErrorListsThoseThereAre) {
  EXPECT_TRUE(throws(ErrorCode::kNotFound,
                     {"[devices] find: got 'cpu:8'",
                      "there are cpu:0, cpu:1, cpu:2, cpu:3, cpu:4, cpu:5, cpu:6, cpu:7",
                      "call set_logical_devices(\"cpu\", n) first"},
                     [] { find_device("cpu:8"); }));
  EXPECT_TRUE(throws(
      ErrorCode::kNotFound,
      {"got 'gpu:77'", list_physical_devices("GPU").empty() ? "libtorch sees no GPU here"
                                                            : "set_logical_devices(\"gpu:0\", n)"},
      [] { find_device("gpu:77"); }));
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"got '/job:worker/task:1/device:CPU:0'"},
                     [] { find_device("/job:worker/task:1/device:CPU:0"); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"got '/job:localhost'", "for example cpu:0 or gpu:0"},
                     [] { find_device("/job:localhost"); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"cpu:x"}, [] { find_device("cpu:x"); }));
}

TEST_F(DevicesTest, ImpossibleDivisionsAreRefused) {
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"[devices] set_logical_devices: got 0 logical devices for 'cpu'", "at least 1"},
             [] { set_logical_devices("cpu", 0); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[devices] set_logical_devices: got 'gpu:77'", "this machine has 1 CPU"},
                     [] { set_logical_devices("gpu:77", 2); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got 'cpu:1'"},
                     [] { set_logical_devices("cpu:1", 2); }));
}

TEST(PerReplicaTest, HoldsFlags) {
  PerReplica<bool> flags({true, false});
  flags.get(1) = true;
  EXPECT_TRUE(std::as_const(flags).get(1));
  EXPECT_EQ(flags.values(), (std::vector<bool>{true, true}));
}

TEST(PerReplicaTest, HoldsOneValuePerReplica) {
  PerReplica<int> values({3, 5});
  EXPECT_EQ(values.size(), 2);
  values.get(1) = 7;
  EXPECT_EQ(values.values(), (std::vector<int>{3, 7}));
  EXPECT_EQ(std::vector<int>(values.begin(), values.end()), values.values());
  EXPECT_TRUE(throws(ErrorCode::kOutOfRange,
                     {"[per_replica] get: got replica 2", "expected 0 to 1"},
                     [&] { values.get(2); }));
  EXPECT_TRUE(throws(ErrorCode::kOutOfRange, {"got replica -1"}, [&] { values.get(-1); }));
}

}  // namespace
}  // namespace strata
