#include "strata/summary/event_reader.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "core/record_format.h"
#include "strata/core/file_system.h"
#include "strata/summary/summary_writer.h"
#include "summary/histogram.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::summary {
namespace {

class EventReaderTest : public ::testing::Test {
 protected:
  // A version record and the scalars 0 to n - 1. @return its bytes.
  std::string write_scalars(int n) {
    auto writer = create_file_writer(folder_.path(), {.wall_time = [] { return 1e9; }});
    for (int i = 0; i < n; ++i) writer.scalar("x", i, i);
    writer.close();
    path_ = writer.path();
    return read_file(path_);
  }

  static std::vector<size_t> starts_of(const std::string& bytes) {
    std::vector<size_t> starts;
    for (size_t at = 0; at < bytes.size();) {
      starts.push_back(at);
      at += 16 + strata::detail::little_endian<uint64_t>(bytes.data() + at);
    }
    return starts;
  }

  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  static std::vector<int64_t> steps_of(EventReader& reader) {
    std::vector<int64_t> steps;
    for (Event event; reader.next(event);) {
      if (!event.values.empty()) steps.push_back(event.step);
    }
    return steps;
  }

  test::TempFolder folder_;
  std::string path_;
};

using Steps = std::vector<int64_t>;

TEST_F(EventReaderTest, ACutTailIsWaitedFor) {
  const std::string bytes = write_scalars(3);
  const size_t last = starts_of(bytes)[3];
  for (size_t size = last + 1; size < bytes.size(); ++size) {
    write(bytes.substr(0, size));
    EventReader reader(path_);
    EXPECT_EQ(steps_of(reader), (Steps{0, 1})) << size;
    EXPECT_TRUE(reader.damage().empty());
    EXPECT_EQ(reader.cut_bytes(), size - last);
    std::ofstream(path_, std::ios::binary | std::ios::app) << bytes.substr(size);
    EXPECT_EQ(steps_of(reader), (Steps{2})) << size;
    EXPECT_EQ(reader.cut_bytes(), 0U);
  }
}

// A damaged length ends the file, damaged data costs its own record.
TEST_F(EventReaderTest, EveryFlippedByteIsSeen) {
  const std::string bytes = write_scalars(3);
  const std::vector<size_t> starts = starts_of(bytes);
  for (size_t at = starts[2]; at < starts[3]; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(damaged);
    EventReader reader(path_);
    const bool in_header = at < starts[2] + 12;
    EXPECT_EQ(steps_of(reader), in_header ? (Steps{0}) : (Steps{0, 2})) << at;
    ASSERT_EQ(reader.damage().size(), 1U) << at;
    EXPECT_EQ(reader.damage()[0].offset, starts[2]);
    EXPECT_EQ(reader.damage()[0].what,
              in_header ? "the record's length is damaged: what follows cannot be read"
                        : "the record's checksum is wrong");
    Event event;
    EXPECT_FALSE(reader.next(event));
  }
}

TEST_F(EventReaderTest, DataThatIsNoEventIsPassedOver) {
  std::string bytes = write_scalars(2);
  const size_t second = starts_of(bytes)[2];
  std::string strange;
  strata::detail::append_record("\x0a\x7f", strange);  // a field that is longer than the record
  write(bytes.substr(0, second) + strange + bytes.substr(second));
  EventReader reader(path_);
  EXPECT_EQ(steps_of(reader), (Steps{0, 1}));
  ASSERT_EQ(reader.damage().size(), 1U);
  EXPECT_EQ(reader.damage()[0].what,
            "[summary] read_events: offset 2: got a length beyond the end; expected the bytes of a "
            "tensorflow.Event");
}

TEST_F(EventReaderTest, OtherFilesAreErrors) {
  path_ = join_path(folder_.path(), "other");
  write("this is a text, and no event file");
  expect_error([&] { read_events(path_); }, ErrorCode::kDataLoss,
               "[summary] read_events: " + path_ +
                   ": got a beginning that is no record; expected an event file");
  expect_error_containing([&] { read_events(path_ + "s"); }, ErrorCode::kNotFound, "No such file");
  write("");
  EXPECT_TRUE(read_events(path_).empty());
}

TEST_F(EventReaderTest, AResumedRunDropsThePointsThatItDidAgain) {
  for (const auto& [from, to] : {std::pair{0, 5}, std::pair{3, 7}}) {
    auto writer = create_file_writer(folder_.path());
    for (int i = from; i < to; ++i) writer.scalar("loss", 10 * from + i, i);
    writer.close();
  }
  const auto curve = scalars_of(read_run(folder_.path())).at("loss");
  std::vector<double> values;
  for (const ScalarPoint& point : curve) values.push_back(point.value);
  EXPECT_EQ(values, (std::vector<double>{0, 1, 2, 33, 34, 35, 36}));
}

TEST(HistogramTest, LeavesOutWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(make_histogram(std::vector<double>{1, nan, 3, infinity, -infinity}, 2),
            (std::vector<HistogramBucket>{{1, 2, 1}, {2, 3, 1}}));
  EXPECT_EQ(make_histogram(std::vector<double>{nan}, 1), (std::vector<HistogramBucket>{{0, 0, 0}}));
}

TEST(HistogramTest, TakesTheWholeRangeOfDoubles) {
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(make_histogram(std::vector<double>{-most, 0, 1, most}, 2),
            (std::vector<HistogramBucket>{{-most, 0, 1}, {0, most, 3}}));
  const double least = std::numeric_limits<double>::denorm_min();
  const auto tiny = make_histogram(std::vector<double>{0, least}, 30);
  EXPECT_EQ(tiny.front().left, 0);
  EXPECT_EQ(tiny.back().right, least);
  double count = 0;
  for (const HistogramBucket& bucket : tiny) count += bucket.count;
  EXPECT_EQ(count, 2);
}

TEST(HistogramTest, NegativeBucketsAreAnError) {
  expect_error([] { make_histogram(std::vector<float>{1}, -1); },
               "[summary] histogram: got -1 buckets; expected 0 or more");
}

}  // namespace
}  // namespace strata::summary
