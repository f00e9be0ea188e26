#include "tools/launch/task_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "support/expect_error.h"
#include "tools/launched.h"

namespace strata::tools {
namespace {

using Stream = TaskOutput::Stream;

class TaskOutputTest : public testing::Test {
 protected:
  TaskOutputTest()
      : fd_(::open(path("shown").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~TaskOutputTest() override { ::close(fd_); }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string shown() const { return text_of(path("shown")); }
  TaskOutputOptions options() const { return {.out = fd_, .err = fd_}; }

  const test::TempFolder folder_;
  const int fd_;
};

TEST_F(TaskOutputTest, LinesAreWholeWhateverThePiecesThatCome) {
  TaskOutput output({"worker:0", "chief:0"}, options());
  output.add(0, Stream::kOut, "one ");
  output.add(1, Stream::kOut, "two\nthree");
  output.add(0, Stream::kErr, "five\n");
  output.add(0, Stream::kOut, "four\n\nsix");
  EXPECT_EQ(shown(), "[chief:0]  two\n[worker:0] five\n[worker:0] one four\n[worker:0] \n");
  output.finish(1);
  output.finish(0);
  output.finish(0);
  EXPECT_TRUE(shown().ends_with("[worker:0] \n[chief:0]  three\n[worker:0] six\n")) << shown();
}

TEST_F(TaskOutputTest, OfALineThatIsRedrawnTheLastStateCounts) {
  TaskOutput output({"worker:0"}, options());
  output.add(0, Stream::kOut, "1/3\r2/3\r3/3\nof Windows\r\n");
  EXPECT_EQ(shown(), "[worker:0] 3/3\n[worker:0] of Windows\n");
}

TEST_F(TaskOutputTest, AnEndlessLineIsShownInParts) {
  TaskOutput output({"w"}, options());
  const std::string part(size_t{64} << 10, 'x');
  for (int i = 0; i < 3; ++i) output.add(0, Stream::kOut, part);
  EXPECT_EQ(shown(), str_cat("[w] ", part, "\n[w] ", part, "\n[w] ", part, "\n"));
}

TEST_F(TaskOutputTest, ColoursAreOfThePrefixesAlone) {
  TaskOutputOptions colours = options();
  colours.colours = true;
  TaskOutput output({"worker:0", "worker:1"}, colours);
  output.add(0, Stream::kOut, "a\n");
  output.add(1, Stream::kOut, "b\n");
  output.say("c");
  EXPECT_EQ(shown(),
            "\033[36m[worker:0] \033[0ma\n\033[33m[worker:1] \033[0mb\n"
            "\033[1mstrata launch: \033[0mc\n");
}

TEST_F(TaskOutputTest, LogsHaveWhatTheTaskPrintedAsItIs) {
  TaskOutputOptions logs = options();
  logs.log_folder = path("logs/of/today");
  TaskOutput output({"worker:0", "ps:1"}, logs);
  output.add(0, Stream::kOut, "1/2\r2/2\nno end");
  output.start_again(0);
  output.add(0, Stream::kErr, "again\n");
  EXPECT_EQ(text_of(path("logs/of/today/worker-0.log")),
            "1/2\r2/2\nno end--- started again ---\nagain\n");
  EXPECT_EQ(text_of(path("logs/of/today/ps-1.log")), "");
  EXPECT_EQ(output.last_lines(0), std::vector<std::string>{"again"});
}

TEST_F(TaskOutputTest, LogsThatCannotBeWrittenAreAnError) {
  std::filesystem::create_directories(path("logs/w.log"));
  TaskOutputOptions logs = options();
  logs.log_folder = path("logs");
  expect_error([&] { TaskOutput({"w"}, logs); }, ErrorCode::kPermissionDenied,
               str_cat("[strata launch] got --log-dir ", path("logs"), ", but ", path("logs/w.log"),
                       " cannot be written: Is a directory"));
}

TEST_F(TaskOutputTest, AReaderThatHasGoneIsNoticed) {
  ::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  TaskOutput output({"w"}, {.out = ends[1], .err = ends[1]});
  output.add(0, Stream::kOut, "a\n");
  EXPECT_FALSE(output.broken());
  ::close(ends[0]);
  output.add(0, Stream::kOut, "a\n");
  EXPECT_TRUE(output.broken());
  ::close(ends[1]);
  ::signal(SIGPIPE, SIG_DFL);
}

}  // namespace
}  // namespace strata::tools
