#include <gtest/gtest.h>

#include "strata/collective/algorithms.h"

namespace strata::collective {
namespace {

TEST(HostsOfTest, HostsAreNumberedInTheOrderOfRanks) {
  EXPECT_EQ(hosts_of({"b", "a", "b", "c", "a"}), (std::vector<int>{0, 1, 0, 2, 1}));
  EXPECT_EQ(hosts_of({}), std::vector<int>());
}

}  // namespace
}  // namespace strata::collective
