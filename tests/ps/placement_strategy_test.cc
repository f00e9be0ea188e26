#include "strata/ps/placement.h"

#include <gtest/gtest.h>

#include "strata/ps/device_setter.h"
#include "support/expect_error.h"

namespace strata::ps {
namespace {

std::vector<int> servers_of(PlacementStrategy strategy,
                            const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<int> servers;
  for (const auto& shape : shapes) servers.push_back(strategy({.name = "v", .shape = shape}));
  return servers;
}

const std::vector<std::vector<int64_t>> kReference = {{2, 2}, {2, 1}, {2, 2}, {1, 3}};

TEST(PlacementStrategyTest, RoundRobinTakesOneAfterTheOther) {
  EXPECT_EQ(servers_of(round_robin(2), kReference), (std::vector{0, 1, 0, 1}));
  EXPECT_EQ(servers_of(round_robin(1), kReference), (std::vector{0, 0, 0, 0}));
  EXPECT_EQ(servers_of(round_robin(3), {{-1}, {-1, 4}, {1}, {1}}), (std::vector{0, 1, 2, 0}));
}

TEST(PlacementStrategyTest, GreedyTakesTheLeastLoaded) {
  EXPECT_EQ(servers_of(greedy(2), kReference), (std::vector{0, 1, 1, 0}));
}

TEST(PlacementStrategyTest, GreedyCountsAsItIsTold) {
  GreedyLoadBalancingStrategy bytes(2);
  GreedyLoadBalancingStrategy elements(2, element_count_load);
  const VariableSpec wide{.name = "wide", .shape = {3}, .dtype = c10::ScalarType::Double};
  const VariableSpec narrow{.name = "narrow", .shape = {5}, .dtype = c10::ScalarType::Half};
  for (auto* strategy : {&bytes, &elements}) {
    EXPECT_EQ((*strategy)(wide), 0);
    EXPECT_EQ((*strategy)(narrow), 1);
  }
  EXPECT_EQ(bytes(narrow), 1);
  EXPECT_EQ(elements(narrow), 0);
  EXPECT_EQ(bytes.loads(), (std::vector<double>{24, 20}));
  EXPECT_EQ(elements.loads(), (std::vector<double>{8, 5}));
}

TEST(PlacementStrategyTest, EqualLoadsAreRoundRobin) {
  EXPECT_EQ(servers_of(GreedyLoadBalancingStrategy(2, [](const VariableSpec&) { return 1.0; }),
                       kReference),
            servers_of(round_robin(2), kReference));
}

TEST(PlacementStrategyTest, CopiesGoOnByThemselves) {
  PlacementStrategy strategy = round_robin(3);
  EXPECT_EQ(strategy({.name = "a"}), 0);
  PlacementStrategy copy = strategy;
  EXPECT_EQ(copy({.name = "b"}), 1);
  EXPECT_EQ(strategy({.name = "b"}), 1);
}

TEST(PlacementStrategyTest, BadArgumentsSaySo) {
  expect_error([] { (void)round_robin(0); },
               "[ps] round_robin: got 0 servers; expected at least one");
  expect_error([] { (void)greedy(-2); },
               "[ps] GreedyLoadBalancingStrategy: got -2 servers; expected at least one");
  expect_error(
      [] {
        (void)greedy(2)({.name = "kernel", .shape = {-1, 4}});
      },
      "[ps] variable \"kernel\": got size -1 in its shape; expected sizes of 0 or more; "
      "build the variable first, or place it with a rule that does not look at shapes "
      "(round robin)");
}

TEST(ParamServerDeviceSetterTest, CountsElementsAndLeavesExplicitDevices) {
  ParamServerDeviceSetter device({"/job:ps/task:0", "/job:ps/task:1"});
  EXPECT_EQ(device({.name = "a", .shape = {6}, .dtype = c10::ScalarType::Half}), "/job:ps/task:0");
  EXPECT_EQ(device({.name = "b", .shape = {5}, .dtype = c10::ScalarType::Double}),
            "/job:ps/task:1");
  EXPECT_EQ(device({.name = "c", .shape = {100}, .device = "/cpu:0"}), "/cpu:0");
  EXPECT_EQ(device({.name = "d", .shape = {1}}), "/job:ps/task:1");
  EXPECT_EQ(device({.name = "e", .shape = {1}}), "/job:ps/task:0");  // 6 and 6: the first
  expect_error([] { ParamServerDeviceSetter setter({}); },
               "[ps] GreedyLoadBalancingStrategy: got 0 servers; expected at least one");
}

}  // namespace
}  // namespace strata::ps
