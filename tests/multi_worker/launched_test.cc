#include <gtest/gtest.h>

#include <string>

#include "multi_worker/reports.h"

namespace strata {
namespace {

// Started by the launcher, with certificates made for the run.
TEST(LaunchedTest, OneReplicaAProcessOverTls) {
  const std::string expected =
      test::one_process("loop").substr(0, std::string("sha256 ").size() + 64);
  const test::Outcome outcome = test::run_program(
      STRATA_COMMAND, {"launch", "--tls", "--env", "STRATA_TEST_IMPLEMENTATION=WIRE", "-n", "8",
                       "--", STRATA_MULTI_WORKER_TRAINER, "loop", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (int task = 0; task < 8; ++task) {
    const std::string line = "[worker:" + std::to_string(task) + "] " + expected + "\n";
    EXPECT_NE(outcome.output.find(line), std::string::npos) << line << outcome.output;
  }
}

}  // namespace
}  // namespace strata
