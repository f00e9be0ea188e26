#include "core/call_notice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "strata/core/log.h"

namespace strata::detail {
namespace {

using namespace std::chrono_literals;

TEST(CallNoticeTest, AllCallsOfAProcessSaySoEvery30Seconds) {
  std::vector<std::string> lines;
  const LogSink before =
      set_log_sink([&](const LogRecord& record) { lines.emplace_back(record.message); });
  const Clock::TimePoint start(100'000'000s);  // later than any wait of this machine
  std::vector<int64_t> said;
  // Each second has a call of its own, and each waits for 8 s.
  for (auto begun = start; begun < start + 100s; begun += 1s) {
    CallNotice notice([] { return std::string("waits for x"); }, begun, begun + 60s);
    for (auto now = begun; now < begun + 8s; now += 1s) {
      const size_t count = lines.size();
      notice.look(now);
      if (lines.size() > count) said.push_back((now - start) / 1s);
      EXPECT_GT(notice.next(), now);
    }
  }
  set_log_sink(before);
  ASSERT_EQ(said.size(), 4u);
  EXPECT_EQ(said[0], 5);
  for (size_t i = 1; i < said.size(); ++i) EXPECT_EQ(said[i] - said[i - 1], 30) << i;
  EXPECT_EQ(lines[0], "waits for x; 5 of 60 s so far");
}

}  // namespace
}  // namespace strata::detail
