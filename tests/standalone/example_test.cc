// The example, with servers.
#include <gtest/gtest.h>

#include "standalone/servers.h"
#include "support/killed_program.h"

namespace strata {
namespace {

TEST(StandaloneExampleTest, Trains) {
  const test::StandaloneServers servers(2);
  const test::Outcome outcome = test::run_program(STRATA_STANDALONE_EXAMPLE, servers.addresses());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("test accuracy 0.9"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace strata
