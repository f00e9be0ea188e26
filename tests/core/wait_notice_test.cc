#include "core/wait_notice.h"

#include <gtest/gtest.h>

#include <vector>

#include "strata/core/log.h"

namespace strata::detail {
namespace {

using namespace std::chrono_literals;

class WaitNoticeTest : public testing::Test {
 protected:
  WaitNoticeTest()
      : before_(set_log_sink(
            [this](const LogRecord& record) { lines_.emplace_back(record.message); })) {}
  ~WaitNoticeTest() override { set_log_sink(before_); }

  const Clock::TimePoint start_ = Clock::TimePoint(1000s);
  std::vector<std::string> lines_;

 private:
  const LogSink before_;
};

TEST_F(WaitNoticeTest, After5SecondsAndThenEvery30) {
  std::string problem = "refused";
  WaitNotice notice([&] { return "waits for x: " + problem; }, start_, start_ + 300s);
  std::vector<int64_t> said;
  for (auto now = start_; now < start_ + 100s; now += 1s) {
    const size_t before = lines_.size();
    notice.look(now);
    if (lines_.size() > before) said.push_back((now - start_) / 1s);
    EXPECT_GT(notice.next(), now);
    if (now == start_ + 10s) problem = "silent";
  }
  EXPECT_EQ(said, (std::vector<int64_t>{5, 35, 65, 95}));
  EXPECT_EQ(lines_[0], "waits for x: refused; 5 of 300 s so far");
  EXPECT_EQ(lines_[1], "waits for x: silent; 35 of 300 s so far");
}

TEST_F(WaitNoticeTest, AWaitWithoutEndHasNone) {
  WaitNotice notice([] { return std::string("waits"); }, start_, Clock::TimePoint::max());
  notice.look(start_ + 5s);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0], "waits; 5 s so far");
}

}  // namespace
}  // namespace strata::detail
