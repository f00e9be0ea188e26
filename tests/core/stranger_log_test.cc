// What strangers can write into the log: how much, and which bytes.
#include <gtest/gtest.h>

#include "core/escaped.h"
#include "core/log_limiter.h"
#include "strata/core/log.h"

namespace strata::detail {
namespace {

using namespace std::chrono_literals;

TEST(EscapedTest, TextStaysAndBytesThatAreNoneAreSpelledOut) {
  EXPECT_EQ(escaped("/job:worker/task:1"), "/job:worker/task:1");
  EXPECT_EQ(escaped("a\nW 2026 forged] line\x1b[31m"), "a\\x0aW 2026 forged] line\\x1b[31m");
  EXPECT_EQ(escaped(std::string_view("\0\xff\\", 3)), "\\x00\\xff\\x5c");
}

TEST(EscapedTest, LongTextIsCut) {
  EXPECT_EQ(escaped(std::string(301, 'x')), std::string(300, 'x') + "...");
  EXPECT_EQ(escaped("abc", 2), "ab...");
}

TEST(LogRecordTest, AMessageCannotForgeALineOrReachTheTerminal) {
  const LogRecord record = {.verbosity = -1,
                            .time = {},
                            .task = "",
                            .device = "",
                            .file = "a.cc",
                            .line = 1,
                            .message = "refused x\nE 1970 forged] line\x1b[2J\r\a"};
  EXPECT_EQ(format_log_record(record),
            "W 1970-01-01 00:00:00.000000 a.cc:1] refused x\n    E 1970 forged] "
            "line\\x1b[2J\\x0d\\x07");
}

TEST(LogLimiterTest, AdmitsTenLinesASecondAndCountsTheOthers) {
  LogLimiter limiter;
  const LogLimiter::Clock::time_point start{1h};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limiter.admit(start), "");
  for (int i = 0; i < 90; ++i) EXPECT_EQ(limiter.admit(start + 900ms), std::nullopt);
  EXPECT_EQ(limiter.admit(start + 1s), " (and 90 more like it before)");
  EXPECT_EQ(limiter.admit(start + 1s), "");
}

}  // namespace
}  // namespace strata::detail
