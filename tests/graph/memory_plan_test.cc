#include "graph/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace strata::graph {
namespace {

bool share_a_step(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(MemoryPlanTest, PiecesThatAreNeededAtOnceLieApart) {
  std::mt19937 bits(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> pieces(bits() % 40);
    int64_t all = 0;
    for (Lifetime& each : pieces) {
      each.bytes = bits() % 1000;
      each.first = static_cast<int32_t>(bits() % 30);
      each.last = each.first + static_cast<int32_t>(bits() % 10);
      all += each.bytes + 64;
    }
    const MemoryPlan plan = plan_memory(pieces);
    ASSERT_EQ(plan.offsets.size(), pieces.size());
    EXPECT_LE(plan.bytes, all);
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0);
      EXPECT_LE(plan.offsets[i] + pieces[i].bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        if (!share_a_step(pieces[i], pieces[j])) continue;
        EXPECT_TRUE(plan.offsets[i] + pieces[i].bytes <= plan.offsets[j] ||
                    plan.offsets[j] + pieces[j].bytes <= plan.offsets[i]);
      }
    }
  }
}

TEST(MemoryPlanTest, AChainTakesTurnsWithTwoPlaces) {
  std::vector<Lifetime> chain;
  for (int32_t i = 0; i < 50; ++i) chain.push_back({.bytes = 128, .first = i, .last = i + 1});
  EXPECT_EQ(plan_memory(chain).bytes, 256);
  EXPECT_EQ(plan_memory({}).bytes, 0);
}

}  // namespace
}  // namespace strata::graph
