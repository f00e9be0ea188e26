#include "cluster/cpu_partition.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace strata::cluster {
namespace {

using Cores = std::vector<std::vector<int>>;

TEST(CpuPartitionTest, NeighboursStayTogether) {
  EXPECT_EQ(share_cores({0, 4, 1, 5}, 2), (Cores{{0, 4}, {1, 5}}));
  EXPECT_EQ(share_cores({0, 1, 2, 3, 4}, 3), (Cores{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(share_cores({3}, 1), (Cores{{3}}));
  EXPECT_EQ(share_cores({0, 1}, 3), (Cores{{}, {}, {}}));  // they share them all
}

TEST(CpuPartitionTest, EachTakesTheCoresNearItsGpuFirst) {
  const std::vector<int> cores = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<int> low = {0, 1, 2, 3}, high = {4, 5, 6, 7};
  EXPECT_EQ(share_cores(cores, 2, {high, low}), (Cores{high, low}));
  EXPECT_EQ(share_cores(cores, 4, {high, low, high, low}), (Cores{{4, 5}, {0, 1}, {6, 7}, {2, 3}}));
  // No core is left unused where all GPUs are at one node.
  EXPECT_EQ(share_cores(cores, 2, {high, high}), (Cores{high, low}));
  EXPECT_EQ(share_cores(cores, 2, {{}, low}), (Cores{high, low}));
  // One with GPUs at both nodes does not take what is all that another wants.
  EXPECT_EQ(share_cores(cores, 2, {cores, low}), (Cores{high, low}));
  EXPECT_EQ(share_cores(cores, 2, {{99}, {}}), (Cores{low, high}));
  EXPECT_EQ(share_cores({0}, 2, {{0}, {0}}), (Cores{{}, {}}));
  EXPECT_EQ(divide({cores, cores, {9}}, {high, low, {9}}), (Cores{high, low, {9}}));
}

TEST(CpuPartitionTest, TheProcessesOwnCoresAreFound) {
  const std::vector<int> cores = cores_by_place();
  ASSERT_FALSE(cores.empty());
  EXPECT_GE(*std::min_element(cores.begin(), cores.end()), 0);
}

TEST(CpuPartitionTest, ProcessesThatMayUseTheSameGetPartsOfIt) {
  EXPECT_EQ(divide({{0, 1}, {0, 1}}), (Cores{{0}, {1}}));
  EXPECT_EQ(divide({{0, 4, 1, 5, 2}, {0, 4, 1, 5, 2}}), (Cores{{0, 4, 1}, {5, 2}}));
  EXPECT_EQ(divide({{0, 1, 2, 3}}), (Cores{{0, 1, 2, 3}}));
}

TEST(CpuPartitionTest, WhoHasItsOwnKeepsIt) {
  EXPECT_EQ(divide({{0}, {1}}), (Cores{{0}, {1}}));
  EXPECT_EQ(divide({{0, 1}, {4, 5, 6}, {0, 1}}), (Cores{{0}, {4, 5, 6}, {1}}));
}

TEST(CpuPartitionTest, ListsThatOverlapAreDividedInTurn) {
  EXPECT_EQ(divide({{0, 1, 2, 3}, {0}}), (Cores{{1, 2, 3}, {0}}));
  // The second and the third have nothing in common, but both share with the first.
  EXPECT_EQ(divide({{0, 1, 2, 3}, {0, 1}, {2, 3}}), (Cores{{1}, {0}, {2, 3}}));
}

TEST(CpuPartitionTest, WhereThereIsNotOneForEachNobodyHasItsOwn) {
  EXPECT_EQ(divide({{0, 1}, {0, 1}, {0, 1}}), (Cores{{}, {}, {}}));
  EXPECT_EQ(divide({{0, 1, 2}, {0}, {0}, {7}}), (Cores{{}, {}, {}, {7}}));
  EXPECT_EQ(divide({}), Cores{});
}

// Whatever the lists: no core twice, none that is not allowed, all or none of those who share.
TEST(CpuPartitionTest, NoCoreIsGivenTwice) {
  uint32_t state = 1;
  const auto random = [&state](uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 16) % below;
  };
  for (int round = 0; round < 2000; ++round) {
    Cores allowed(1 + random(6));
    for (auto& list : allowed) {
      for (int core = 0; core < 8; ++core) {
        if (random(3) == 0) list.push_back(core);
      }
    }
    const Cores parts = divide(allowed);
    ASSERT_EQ(parts.size(), allowed.size());
    std::vector<int> all;
    for (size_t i = 0; i < parts.size(); ++i) {
      for (const int core : parts[i]) {
        EXPECT_TRUE(std::ranges::find(allowed[i], core) != allowed[i].end()) << core;
        all.push_back(core);
      }
    }
    std::ranges::sort(all);
    EXPECT_TRUE(std::ranges::adjacent_find(all) == all.end()) << "round " << round;
  }
}

}  // namespace
}  // namespace strata::cluster
