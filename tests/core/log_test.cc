#include "strata/core/log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace strata {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    verbosity_ = log_verbosity();
    set_log_sink([this](const LogRecord& record) { lines_.push_back(format_log_record(record)); });
  }

  void TearDown() override {
    set_log_sink(nullptr);
    set_log_verbosity(verbosity_);
    set_log_task("");
    set_thread_log_device("");
  }

  std::vector<std::string> lines_;
  int verbosity_ = 0;
};

TEST_F(LogTest, ShowsWarningsAndErrorsAtFirst) {
  set_log_verbosity(static_cast<int>(LogLevel::kWarning));
  STRATA_LOG(kInfo) << "no";
  STRATA_LOG(kWarning) << "slow: " << 3;
  STRATA_LOG(kError) << "broken";
  STRATA_VLOG(1) << "no";
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_TRUE(lines_[0].starts_with("W 20")) << lines_[0];
  EXPECT_NE(lines_[0].find(" log_test.cc:"), std::string::npos) << lines_[0];
  EXPECT_TRUE(lines_[0].ends_with("] slow: 3")) << lines_[0];
  EXPECT_TRUE(lines_[1].starts_with("E ")) << lines_[1];
}

TEST_F(LogTest, DoesNotEvaluateWhatIsNotShown) {
  set_log_verbosity(2);
  int calls = 0;
  const auto count = [&] { return ++calls; };
  STRATA_VLOG(3) << count();
  EXPECT_EQ(calls, 0);
  STRATA_VLOG(2) << count();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(lines_.at(0).starts_with("2 ")) << lines_[0];
}

TEST_F(LogTest, IsOneStatementInAnUnbracedIf) {
  if (lines_.empty())
    STRATA_LOG(kError) << "then";
  else
    STRATA_LOG(kError) << "else";
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(LogTest, CarriesTaskOfTheProcessAndDeviceOfTheThread) {
  set_log_task("worker:1/4");
  set_thread_log_device("cpu:0");
  STRATA_LOG(kError) << "here";
  std::thread([] { STRATA_LOG(kError) << "there"; }).join();
  EXPECT_NE(lines_.at(0).find(" worker:1/4 cpu:0 log_test.cc:"), std::string::npos) << lines_[0];
  EXPECT_NE(lines_.at(1).find(" worker:1/4 log_test.cc:"), std::string::npos) << lines_[1];
}

TEST_F(LogTest, FormatsTimeInUtcToTheMicrosecond) {
  const LogRecord record{
      .verbosity = 0,
      .time = std::chrono::system_clock::time_point(std::chrono::microseconds(1700000000000042)),
      .task = "",
      .device = "",
      .file = "a.cc",
      .line = 7,
      .message = "x"};
  EXPECT_EQ(format_log_record(record), "I 2023-11-14 22:13:20.000042 a.cc:7] x");
}

TEST_F(LogTest, DefaultSinkWritesALineToStderr) {
  set_log_sink(nullptr);
  ::testing::internal::CaptureStderr();
  STRATA_LOG(kError) << "to stderr";
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.ends_with("] to stderr\n")) << text;
}

TEST_F(LogTest, ReadsTheEnvironmentsLevel) {
  EXPECT_EQ(detail::parse_log_level(nullptr), -1);
  EXPECT_EQ(detail::parse_log_level(""), -1);
  EXPECT_EQ(detail::parse_log_level("error"), -2);
  EXPECT_EQ(detail::parse_log_level("warning"), -1);
  EXPECT_EQ(detail::parse_log_level("info"), 0);
  EXPECT_EQ(detail::parse_log_level("4"), 4);
  EXPECT_EQ(detail::parse_log_level("4x"), -1);
}

}  // namespace
}  // namespace strata
