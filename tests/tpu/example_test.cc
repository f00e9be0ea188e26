// The example, on virtual devices.
#include <gtest/gtest.h>

#include "support/killed_program.h"
#include "support/pjrt_plugin.h"

namespace strata {
namespace {

TEST(TpuExampleTest, Trains) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const test::Outcome outcome = test::run_program(STRATA_TPU_EXAMPLE, {"--cpu-devices", "8"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("test accuracy 0.9"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace strata
