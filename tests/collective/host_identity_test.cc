#include "strata/collective/host_identity.h"

#include <gtest/gtest.h>

namespace strata::collective {
namespace {

TEST(HostIdentityTest, IsOneForAProcess) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_NE(host_identity().find("network"), std::string::npos) << host_identity();
}

TEST(HostIdentityTest, HostsAreNumberedInTheOrderOfRanks) {
  EXPECT_EQ(hosts_of({"b", "a", "b", "c", "a"}), (std::vector<int>{0, 1, 0, 2, 1}));
  EXPECT_EQ(hosts_of({}), std::vector<int>());
}

}  // namespace
}  // namespace strata::collective
