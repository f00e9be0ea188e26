#include "strata/strategies/run_main.h"

#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "strata/core/error.h"
#include "strata/core/interrupt.h"

namespace strata {
namespace {

TEST(RunMainTest, GivesTheExitCode) {
  bool called = false;
  EXPECT_EQ(run_main([&] { called = true; }), 0);
  EXPECT_TRUE(called);
  EXPECT_EQ(run_main([] { throw ExitError(42, ErrorCode::kCancelled, "saved"); }), 42);
}

TEST(RunMainTest, PrintsErrors) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_main([] { throw Error(ErrorCode::kNotFound, "no such file"); }), 1);
  EXPECT_EQ(run_main([] { throw std::runtime_error("another"); }), 1);
  EXPECT_EQ(run_main([] { throw 7; }), 1);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_NE(printed.find("no such file\nanother\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("run_main"), std::string::npos) << printed;
}

TEST(RunMainTest, CtrlCEndsWith130) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_main([] {
              std::raise(SIGINT);
              throw_if_interrupted();
            }),
            130);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("Ctrl-C"), std::string::npos);
  // What others cancelled is an error.
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_main([] { throw Error(ErrorCode::kCancelled, "by another"); }), 1);
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace strata
