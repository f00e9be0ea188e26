#include "strata/summary/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>

#include "core/thread.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/summary/trace_recorder.h"
#include "summary/gzip.h"
#include "summary/xplane.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::summary {
namespace {

TEST(TraceRecorderTest, RecordsEveryThreadUnderItsName) {
  TraceRecorder recorder;
  std::barrier both(2);
  const auto work = [&] {
    const auto outer = recorder.span("outer");
    both.arrive_and_wait();
    for (int i = 0; i < 100; ++i) const auto inner = recorder.span("inner");
  };
  { Thread a("first", work), b("second", work); }
  const Trace trace = recorder.take();
  ASSERT_EQ(trace.threads.size(), 2U);
  EXPECT_NE(trace.threads[0].name, trace.threads[1].name);
  for (const TraceThread& thread : trace.threads) {
    EXPECT_TRUE(thread.name == "first" || thread.name == "second");
    ASSERT_EQ(thread.spans.size(), 101U);
    const TraceSpan& outer = thread.spans.back();
    EXPECT_EQ(outer.name, "outer");
    for (const TraceSpan& span : thread.spans) {
      EXPECT_GE(span.begin_ns, outer.begin_ns);
      EXPECT_LE(span.begin_ns + span.duration_ns, outer.begin_ns + outer.duration_ns);
    }
  }
  EXPECT_TRUE(recorder.take().threads.empty());
}

TEST(TraceRecorderTest, RecordersDoNotMix) {
  TraceRecorder a, b;
  for (int i = 0; i < 3; ++i) {
    a.add("a", 0, 1);
    b.add("b", 5, 5);
  }
  for (const auto& [recorder, name] : {std::pair{&a, "a"}, std::pair{&b, "b"}}) {
    const Trace trace = recorder->take();
    ASSERT_EQ(trace.threads.size(), 1U);  // not one for each change
    ASSERT_EQ(trace.threads[0].spans.size(), 3U);
    for (const TraceSpan& span : trace.threads[0].spans) EXPECT_EQ(span.name, name);
  }
}

TEST(TraceRecorderTest, TakeWhileOthersRecordLosesNothing) {
  TraceRecorder recorder;
  constexpr size_t kSpans = 20000;
  size_t taken = 0;
  const auto count = [&] {
    for (const TraceThread& thread : recorder.take().threads) taken += thread.spans.size();
  };
  {
    Thread thread("busy", [&] {
      for (size_t i = 0; i < kSpans; ++i) recorder.add("x", 0, 1);
    });
    for (int i = 0; i < 100; ++i) count();
  }
  count();
  EXPECT_EQ(taken, kSpans);
}

TEST(TraceRecorderTest, WithoutARecorderASpanDoesNothing) {
  const TraceRecorder::Scope span(nullptr, "nothing");
}

TEST(TraceRecorderTest, CountsWhatItDrops) {
  TraceRecorder recorder({.max_spans_per_thread = 2});
  for (int i = 0; i < 5; ++i) recorder.add("x", i, i + 1);
  const Trace trace = recorder.take();
  EXPECT_EQ(trace.dropped, 3);
  EXPECT_EQ(trace.threads.at(0).spans.size(), 2U);
  EXPECT_EQ(recorder.take().dropped, 0);
}

TEST(TraceRecorderTest, SaysWhatIsWrong) {
  expect_error([] { TraceRecorder({.max_spans_per_thread = 0}); },
               "[summary] TraceRecorder: got max_spans_per_thread 0; expected at least 1");
  TraceRecorder recorder;
  expect_error([&] { recorder.add("x", 5, 3); },
               "[summary] TraceRecorder::add: x: got an end 2 ns before its beginning; expected it "
               "behind");
}

const Trace kTrace = {.start_ns = 1'700'000'000'000'000'000,
                      .threads = {{.name = "main", .spans = {{"say \"hi\"\n", 1500, 20'000'123}}},
                                  {.name = "b", .spans = {{"x", 0, 1}, {"x", 2, 1}}}},
                      .dropped = 0};

TEST(TraceTest, IsChromesJson) {
  EXPECT_EQ(chrome_trace_json(kTrace, "host"),
            R"({"displayTimeUnit":"ns","traceEvents":[)"
            R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"host"}},)"
            "\n"
            R"({"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"main"}},)"
            "\n"
            R"({"ph":"X","pid":1,"tid":1,"ts":1.500,"dur":20000.123,"name":"say \"hi\"\u000a"},)"
            "\n"
            R"({"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"b"}},)"
            "\n"
            R"({"ph":"X","pid":1,"tid":2,"ts":0.000,"dur":0.001,"name":"x"},)"
            "\n"
            R"({"ph":"X","pid":1,"tid":2,"ts":0.002,"dur":0.001,"name":"x"})"
            "\n]}\n");
}

TEST(TraceTest, WritesWhereTensorBoardLooks) {
  const test::TempFolder folder;
  const std::string profile = write_profile(folder.path(), kTrace, "step_5");
  EXPECT_EQ(profile, folder.path() + "/plugins/profile/step_5");
  const auto names = local_file_system().list(profile);
  ASSERT_EQ(names.size(), 2U);
  EXPECT_TRUE(names[0].ends_with(".trace.json.gz"));
  EXPECT_TRUE(names[1].ends_with(".xplane.pb"));
  EXPECT_EQ(read_file(join_path(profile, names[0])), detail::gzip(chrome_trace_json(kTrace)));
  EXPECT_NE(write_profile(folder.path(), kTrace).find("/plugins/profile/2023_11_1"),
            std::string::npos);

  const std::string plain = join_path(folder.path(), "trace.json");
  write_chrome_trace(plain, kTrace, "p");
  EXPECT_EQ(read_file(plain), chrome_trace_json(kTrace, "p"));
}

// This test's gzip() is stored_gzip.cc's; Python's gzip reads the same bytes
// (tests/golden/check_events_with_tensorboard.py reads the other's).
TEST(TraceTest, GzipWithoutZlib) {
  const std::string_view start("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  EXPECT_EQ(detail::gzip("123456789"),
            std::string(start) + std::string("\1\x09\0\xf6\xff", 5) + "123456789" +
                std::string("\x26\x39\xf4\xcb\x09\0\0\0", 8));  // CRC-32's check value
  EXPECT_EQ(detail::gzip(""),
            std::string(start) + std::string("\1\0\0\xff\xff", 5) + std::string(8, '\0'));
  const std::string two = detail::gzip(std::string(70000, 'a'));
  EXPECT_EQ(two.size(), 10U + 5 + 65535 + 5 + 4465 + 8);
  EXPECT_EQ(two.substr(10, 5), std::string("\0\xff\xff\0\0", 5));
}

}  // namespace
}  // namespace strata::summary
