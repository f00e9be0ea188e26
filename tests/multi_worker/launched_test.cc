#include <gtest/gtest.h>

#include <string>
#include <vector>

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

/// What all tasks printed, if it is the same: "sha256 ...".
std::string launched(std::vector<std::string> options) {
  std::vector<std::string> words = {"launch", "--env", "STRATA_TEST_IMPLEMENTATION=WIRE", "-n",
                                    "2"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", STRATA_MULTI_WORKER_TRAINER, "loop", "4"});
  const test::Outcome outcome = test::run_program(STRATA_COMMAND, words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto line_of = [&](int task) {
    const std::string start = "[worker:" + std::to_string(task) + "] sha256 ";
    const size_t at = outcome.output.find(start);
    return at == std::string::npos ? std::string() : outcome.output.substr(at + 11, 7 + 64);
  };
  EXPECT_EQ(line_of(0), line_of(1)) << outcome.output;
  return line_of(0);
}

// Who is let in changes nothing in what is computed.
TEST(LaunchedTest, WithAndWithoutASecretTheSameBits) {
  const std::string with = launched({});
  EXPECT_TRUE(with.starts_with("sha256 ")) << with;
  EXPECT_EQ(launched({"--no-secret"}), with);
}

}  // namespace
}  // namespace strata
