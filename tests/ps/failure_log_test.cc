#include "ps/failure_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata::ps {
namespace {

// Want of memory comes again at once, and must not fill the disk as well.
TEST(FailureLogTest, AFailureThatComesAgainAtOnceIsOneLine) {
  std::vector<std::string> lines;
  LogSink before =
      set_log_sink([&](const LogRecord& record) { lines.emplace_back(record.message); });
  FailureLog log;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) log.log("serving", {ErrorCode::kResourceExhausted, "no memory"});
  const auto seconds = std::chrono::steady_clock::now() - start;
  set_log_sink(std::move(before));
  ASSERT_GE(lines.size(), 1U);
  EXPECT_EQ(lines[0], "[ps] serving: no memory; continuing");
  EXPECT_LE(lines.size(), 1 + std::chrono::duration<double>(seconds).count());
}

}  // namespace
}  // namespace strata::ps
