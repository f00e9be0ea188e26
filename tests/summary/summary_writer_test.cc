#include "strata/summary/summary_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "strata/core/file_system.h"
#include "strata/summary/event_reader.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::summary {
namespace {

using std::chrono::milliseconds;

// The disk, but for `create`.
class OtherDisk : public FileSystem {
 public:
  std::unique_ptr<ReadableFile> open(const std::string& path) const override {
    return local_file_system().open(local(path));
  }
  std::optional<FileInfo> info(const std::string& path) const override {
    return local_file_system().info(local(path));
  }
  std::vector<std::string> list(const std::string& path) const override {
    return local_file_system().list(local(path));
  }
  void make_folders(const std::string& path) const override {
    local_file_system().make_folders(local(path));
  }
  void rename(const std::string&, const std::string&) const override { FAIL(); }
  void remove(const std::string&) const override { FAIL(); }
  void sync_folder(const std::string&) const override {}

 protected:
  static std::string local(const std::string& path) { return path.substr(path.find("://") + 3); }
};

class FullDisk final : public OtherDisk {
 public:
  std::unique_ptr<WritableFile> create(const std::string&) const override {
    return local_file_system().create("/dev/full");
  }
};

// Whose `append` waits until the test lets it go on.
struct Gate {
  std::promise<void> entered;
  std::promise<void> go_on;
  std::promise<void> gone;  // the file
};
std::shared_ptr<Gate> gate;  // of the next file

bool comes(std::promise<void>& promise) {
  return promise.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready;
}

class HangingFile final : public WritableFile {
 public:
  explicit HangingFile(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  ~HangingFile() override { gate_->gone.set_value(); }
  void append(std::span<const std::byte>) override {
    gate_->entered.set_value();
    EXPECT_TRUE(comes(gate_->go_on));
  }
  void sync() override {}
  void close() override {}

 private:
  const std::shared_ptr<Gate> gate_;
};

class HangingDisk final : public OtherDisk {
 public:
  std::unique_ptr<WritableFile> create(const std::string&) const override {
    return std::make_unique<HangingFile>(std::exchange(gate, nullptr));
  }
};

std::string on_full_disk(const std::string& folder) {
  static const bool once = (register_file_system("full", std::make_unique<const FullDisk>()), true);
  return once ? "full://" + folder : "";
}

std::string on_hanging_disk(const std::string& folder) {
  static const bool once =
      (register_file_system("hanging", std::make_unique<const HangingDisk>()), true);
  return once ? "hanging://" + folder : "";
}

size_t events_in(const std::string& path) { return read_events(path).size(); }

TEST(SummaryWriterTest, FlushWritesEverything) {
  const test::TempFolder folder;
  auto writer = create_file_writer(join_path(folder.path(), "a/train"));
  writer.scalar("x", 1.5, 7);
  writer.flush();
  EXPECT_EQ(events_in(writer.path()), 2U);
  const std::vector<Event> events = read_events(writer.path());
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 7);
  EXPECT_EQ(events[1].values.at(0).tensor.numbers, (std::vector<double>{1.5}));
  EXPECT_NEAR(events[1].wall_time, static_cast<double>(::time(nullptr)), 100);
  writer.flush();
  writer.close();
  writer.close();
  EXPECT_EQ(events_in(writer.path()), 2U);
}

TEST(SummaryWriterTest, AFullQueueAndAnOldOneAreWrittenUnasked) {
  const test::TempFolder folder;
  const auto wait_for_events = [](const std::string& path, size_t n) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (events_in(path) < n && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    return events_in(path);
  };
  auto full = create_file_writer(folder.path(), {.max_queue = 3});
  for (int i = 0; i < 3; ++i) full.scalar("x", i, i);  // with the version they are 4
  EXPECT_EQ(wait_for_events(full.path(), 4), 4U);
  auto old = create_file_writer(folder.path(), {.flush_millis = milliseconds(1)});
  old.scalar("x", 0, 0);
  EXPECT_EQ(wait_for_events(old.path(), 2), 2U);
}

TEST(SummaryWriterTest, ManyThreadsLoseNothing) {
  const test::TempFolder folder;
  constexpr int kThreads = 8, kEach = 500;
  // A queue of a few records: callers wait for the disk.
  auto writer = create_file_writer(folder.path(), {.max_queue = 2, .max_queue_bytes = 256});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        writer.scalar("thread " + std::to_string(t), i, i);
        if (i % 100 == t) writer.flush();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.close();
  const auto curves = scalars_of(read_events(writer.path()));
  ASSERT_EQ(curves.size(), static_cast<size_t>(kThreads));
  for (const auto& [tag, points] : curves) {
    ASSERT_EQ(points.size(), static_cast<size_t>(kEach)) << tag;  // so they came in order
    for (int i = 0; i < kEach; ++i) EXPECT_EQ(points[static_cast<size_t>(i)].value, i);
  }
}

TEST(SummaryWriterTest, ARecordLargerThanTheQueueGoesThrough) {
  const test::TempFolder folder;
  auto writer = create_file_writer(folder.path(), {.max_queue_bytes = 100});
  writer.text("long", std::string(5000, 'a'), 0);
  writer.scalar("x", 1, 1);
  writer.close();
  EXPECT_EQ(events_in(writer.path()), 3U);
}

TEST(SummaryWriterTest, AFullDiskIsReportedByEveryCall) {
  const test::TempFolder folder;
  auto writer = create_file_writer(on_full_disk(folder.path()));
  writer.scalar("x", 1, 1);
  constexpr auto kFull = ErrorCode::kResourceExhausted;
  expect_error_containing([&] { writer.flush(); }, kFull, "No space left on device");
  expect_error_containing([&] { writer.scalar("x", 2, 2); }, kFull, "No space left on device");
  expect_error_containing([&] { writer.flush(); }, kFull, "No space left on device");
  expect_error_containing([&] { writer.close(); }, kFull, "No space left on device");
}

TEST(SummaryWriterTest, ADiskThatHangsIsADeadlineExceeded) {
  const test::TempFolder folder;
  const auto own = std::make_shared<Gate>();
  gate = own;
  {
    auto writer =
        create_file_writer(on_hanging_disk(folder.path()),
                           {.max_queue = 1, .max_queue_bytes = 1000, .timeout = milliseconds(20)});
    constexpr auto kLate = ErrorCode::kDeadlineExceeded;
    expect_error_containing([&] { writer.flush(); }, kLate, "were not written within 20 ms");
    ASSERT_TRUE(comes(own->entered));
    expect_error_containing([&] { writer.text("x", std::string(2000, 'a'), 1); }, kLate,
                            "[summary] text: hanging://");
    expect_error_containing([&] { writer.close(); }, kLate, "expected a disk that answers");
  }
  own->go_on.set_value();
  EXPECT_TRUE(comes(own->gone));  // the thread ends by itself, and takes the file with it
}

TEST(SummaryWriterTest, FilesOfOneRunSortByAge) {
  const test::TempFolder folder;
  std::ofstream(join_path(folder.path(), "events.out.tfevents.4000000000.other.1.0.v2"));
  std::ofstream(join_path(folder.path(), "events.out.tfevents.99999999999999999999.other"));
  std::ofstream(join_path(folder.path(), "events.out.tfevents.none"));
  std::vector<std::string> paths;
  for (int i = 0; i < 12; ++i) {
    auto writer = create_file_writer(folder.path(),
                                     {.filename_suffix = ".a", .wall_time = [] { return 1e9; }});
    writer.close();
    paths.push_back(writer.path());
  }
  EXPECT_TRUE(std::ranges::is_sorted(paths));
  EXPECT_EQ(std::set<std::string>(paths.begin(), paths.end()).size(), 12U);
  EXPECT_NE(paths[0].find("/events.out.tfevents.4000000001."), std::string::npos) << paths[0];
  EXPECT_TRUE(paths[0].ends_with(".a"));
}

TEST(SummaryWriterTest, SaysWhatIsWrong) {
  const test::TempFolder folder;
  const std::string& path = folder.path();
  expect_error([&] { (void)create_file_writer(path, {.max_queue = 0}); },
               "[summary] create_file_writer: got max_queue 0 and max_queue_bytes 67108864; "
               "expected at least 1");
  expect_error([&] { (void)create_file_writer(path, {.flush_millis = milliseconds(0)}); },
               "[summary] create_file_writer: got flush_millis 0 and timeout 60000 ms; expected at "
               "least 1");
  expect_error([&] { (void)create_file_writer(path, {.filename_suffix = "a/b"}); },
               "[summary] create_file_writer: got filename_suffix a/b; expected no '/'");
  std::ofstream(path + "/file");
  expect_error_containing([&] { (void)create_file_writer(path + "/file/run"); },
                          ErrorCode::kFailedPrecondition, "make_folders");

  auto writer = create_file_writer(path);
  expect_error([&] { writer.scalar("", 1, 1); },
               "[summary] scalar: got an empty tag; expected a name");
  const std::string png = "\x89PNG\r\n\x1a\n" + std::string("\0\0\0\x0dIHDR\0\0\0\x03\0\0\1\0", 16);
  writer.image("x", std::vector{png}, 3, 256, 0);
  expect_error(
      [&] {
        writer.image("x", std::vector{png, png}, 256, 3, 0);
      },
      "[summary] image: got image 0 of 3 x 256 pixels; expected width x height = 256 x 3");
  expect_error(
      [&] {
        writer.image("x", std::vector<std::string>{png, "GIF"}, 3, 256, 0);
      },
      "[summary] image: got image 1 of 3 bytes that are no PNG file; expected one "
      "(data::encode_png)");

  GraphDef graph;
  graph.add({.name = "a/b", .op = "Input", .inputs = {}})
      .add({.name = "c", .op = "Relu", .inputs = {"a/b:0", "^a/b"}});
  writer.graph(graph);
  expect_error([&] { graph.add({.name = "c", .op = "Relu", .inputs = {}}); },
               "[summary] GraphDef::add: got a second node c; expected a name for each");
  expect_error([&] { graph.add({.name = "d", .op = "", .inputs = {}}); },
               "[summary] GraphDef::add: got name \"d\" and op \"\"; expected both");
  graph.add({.name = "d", .op = "Relu", .inputs = {"e"}});
  expect_error([&] { writer.graph(graph); },
               "[summary] graph: node d: got input e; expected the name of a node");

  writer.close();
  for (const auto& call : std::vector<std::function<void()>>{[&] { writer.scalar("x", 1, 1); },
                                                             [&] { writer.flush(); }}) {
    expect_error_containing(call, ErrorCode::kFailedPrecondition,
                            ": got a call after close; expected none");
  }
  auto other = std::move(writer);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is the point
  expect_error([&] { writer.flush(); }, ErrorCode::kFailedPrecondition,
               "[summary] flush: got a writer that was moved from; expected one that is open");
}

}  // namespace
}  // namespace strata::summary
