#include "wire/host_identity.h"

#include <gtest/gtest.h>

namespace strata::wire {
namespace {

TEST(HostIdentityTest, IsOneForAProcess) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_NE(host_identity().find("network"), std::string::npos) << host_identity();
}

}  // namespace
}  // namespace strata::wire
