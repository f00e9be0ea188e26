// Every source that reads files: save anywhere, restore, and exactly the rest comes.
#include <ATen/ops/full.h>

#include "data/elements.h"
#include "data/files_support.h"
#include "data/source.h"
#include "strata/data/csv.h"
#include "strata/data/image_folder.h"
#include "strata/data/text_file.h"
#include "strata/data/tf_record.h"
#include "support/temp_folder.h"

namespace strata::data {
namespace {

void expect_rest_from_anywhere(const Dataset& dataset, const std::string& what) {
  SCOPED_TRACE(what);
  const std::vector<std::string> all = describe(dataset);
  ASSERT_GT(all.size(), 4u);
  Iterator iterator = dataset.iterator(0);
  for (size_t given = 0;; ++given) {
    const std::string saved = iterator.position().to_string();
    Iterator other = dataset.iterator(7);
    other.restore(Position::from_string(saved));
    EXPECT_EQ(other.position().to_string(), saved);
    EXPECT_EQ(describe_rest(other),
              std::vector<std::string>(all.begin() + static_cast<long>(given), all.end()))
        << "from " << saved;
    EXPECT_EQ(describe(dataset.skip(static_cast<int64_t>(given))),
              std::vector<std::string>(all.begin() + static_cast<long>(given), all.end()));
    if (!iterator.next()) break;
  }
}

class FilePositionsTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return join_path(folder_.path(), name); }
  std::string file(const std::string& name, const std::string& bytes) const {
    write_file(path(name), bytes);
    return path(name);
  }

  test::TempFolder folder_;
};

TEST_F(FilePositionsTest, Lines) {
  const std::vector<std::string> files = {golden_file("lines.txt"), file("empty", ""),
                                          file("one", "one"), file("ends", "a\n\nb\n")};
  expect_rest_from_anywhere(text_lines(files), "plain");
  expect_rest_from_anywhere(text_lines(files, {.buffer_size = 3}), "small buffer");
  expect_rest_from_anywhere(text_lines(files).shuffle(3).batch(1).prefetch(2), "shuffled");
  EXPECT_EQ(text_lines(files).cardinality(), Dataset::kUnknown);
  EXPECT_EQ(text_lines({}).cardinality(), 0);
}

TEST_F(FilePositionsTest, Csv) {
  const std::vector<CsvColumn> columns(2, CsvColumn::int64(0));
  const std::vector<std::string> files = {file("a.csv", "x,y\n1,2\n3,\n\"5\",6"),
                                          file("b.csv", "x,y\r\n7,8\r\n"), file("c.csv", "x,y\n"),
                                          file("d.csv", "\"x\n\",y\n9,10\n")};
  expect_rest_from_anywhere(csv(files, columns, {.header = true}), "csv");
  expect_rest_from_anywhere(csv(files, columns, {.header = true, .buffer_size = 2}),
                            "small buffer");
  expect_rest_from_anywhere(csv_matrix(files, {.label_column = 0, .default_value = -1}), "matrix");
}

TEST_F(FilePositionsTest, Records) {
  const std::vector<std::string> files = {golden_file("plain.tfrecord"), file("empty", ""),
                                          golden_file("examples.tfrecord")};
  expect_rest_from_anywhere(tf_records(files), "plain");
  expect_rest_from_anywhere(tf_records(files, {.buffer_size = 16}), "small buffer");
  expect_rest_from_anywhere(tf_records(files, {.skip_damaged = true}), "skipping damage");
}

TEST_F(FilePositionsTest, CompressedFiles) {
  if (!STRATA_TEST_ZLIB) return;
  expect_rest_from_anywhere(
      tf_records({golden_file("records.tfrecord.gz"), golden_file("records.tfrecord.zlib")}),
      "records");
  expect_rest_from_anywhere(text_lines({golden_file("lines.txt.gz"), golden_file("lines.txt.gz")}),
                            "lines");
  expect_rest_from_anywhere(csv({golden_file("table.csv.gz"), golden_file("table.csv.gz")},
                                std::vector<CsvColumn>(5, CsvColumn::string("")), {.header = true}),
                            "csv");
}

TEST_F(FilePositionsTest, PathsOfAFolder) {
  const FileSystem& disk = local_file_system();
  for (const char* name : {"b/2.png", "b/1.JPG", "a/x.jpeg", "a/more/y.png", "c/z.png"}) {
    const std::string image = path(name);
    disk.make_folders(image.substr(0, image.rfind('/')));
    write_file(image, "");
  }
  write_file(path("a/notes.txt"), "");
  const ImageFolder found = image_folder(folder_.path());
  EXPECT_EQ(found.class_names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(found.labels, (std::vector<int64_t>{0, 0, 1, 1, 2}));
  EXPECT_EQ(found.paths,
            (std::vector<std::string>{path("a/more/y.png"), path("a/x.jpeg"), path("b/1.JPG"),
                                      path("b/2.png"), path("c/z.png")}));
  EXPECT_EQ(found.files().cardinality(), 5);
  const auto first = found.files().iterator(0).next();
  EXPECT_EQ(to_string(first->x()), path("a/more/y.png"));
  expect_rest_from_anywhere(found.files(), "in order");
  expect_rest_from_anywhere(found.files().shuffle(5, {.seed = 3}).repeat(2), "shuffled");
  expect_error(ErrorCode::kNotFound, {"has no folder dogs"}, [&] {
    (void)image_folder(folder_.path(), {.class_names = {"a", "dogs"}});
  });
  expect_error(ErrorCode::kNotFound, {"without sub-folders"},
               [&] { (void)image_folder(path("c")); });
  expect_error(ErrorCode::kNotFound, {"without images"},
               [&] { (void)image_folder(folder_.path(), {.extensions = {".gif"}}); });
}

TEST_F(FilePositionsTest, DistributionsSeeFilesAndSpecs) {
  const std::vector<std::string> files = {file("0", "0,1"), file("1", "1,2"), file("2", "2,3")};
  const Dataset lines = text_lines(files);
  EXPECT_EQ(lines.source()->num_files(), 3);
  EXPECT_EQ(describe(Dataset(lines.source()->shard_files(2, 0))),
            describe(text_lines({files[0], files[2]})));
  EXPECT_EQ(Dataset(lines.source()->shard_files(2, 1)).source()->num_files(), 1);
  const auto spec = [](const Dataset& dataset) {
    std::string all;
    for (const TensorSpec& field : dataset.element_spec()) all += field.to_string() + " ";
    return all;
  };
  EXPECT_EQ(spec(lines), "Byte[-1] ");
  EXPECT_EQ(spec(tf_records(files)), "Byte[-1] ");
  EXPECT_EQ(spec(csv(files, {CsvColumn::int32(), CsvColumn::string()})), "Int[] Byte[-1] ");
  EXPECT_EQ(spec(csv(files, {CsvColumn::float64(), CsvColumn::int64()}).batch(2)),
            "Double[-1] Long[-1] ");
  EXPECT_EQ(spec(csv_matrix(files, {.header = false})), "Float[1] Long[] ");
}

// With the transforms that work ahead, and those that go on behind errors.
TEST_F(FilePositionsTest, UnderParallelMapsInterleavesAndIgnoredErrors) {
  const std::vector<std::string> files = {file("0", "1\n2\n3\n4"), path("missing"),
                                          file("2", "5\n6\n7")};
  const auto image = [](Example e) { return Example{e.x().to(at::kLong)}; };
  expect_rest_from_anywhere(text_lines({files[0], files[2]}).map(image, {.num_parallel_calls = 3}),
                            "parallel map");
  expect_rest_from_anywhere(text_lines(files).ignore_errors(), "ignored errors");
  EXPECT_EQ(describe(text_lines(files).ignore_errors()).size(), 7u);
}

TEST_F(FilePositionsTest, FilesThatAreNotThere) {
  const Dataset dataset = text_lines({path("missing"), file("there", "a\nb")});
  Iterator iterator = dataset.iterator(0);
  expect_error(ErrorCode::kNotFound, {path("missing")}, [&] { (void)iterator.next(); });
  EXPECT_EQ(to_string(iterator.next()->x()), "a");  // goes on with the next file
  expect_error(ErrorCode::kInvalidArgument, {"text_lines: got an empty path as file 1 of 2"}, [&] {
    (void)text_lines({"a", ""});
  });
}

TEST_F(FilePositionsTest, PositionsThatDoNotFit) {
  const Dataset dataset = text_lines({file("a", "1\n2\n3\n")});
  Iterator iterator = dataset.iterator(0);
  (void)iterator.next();
  const auto restore = [&](const Dataset& into, const std::string& text) {
    into.iterator(0).restore(Position::from_string(text));
  };
  const std::string saved = iterator.position().to_string();
  EXPECT_EQ(saved, "iterator[0](text_lines[0,2])");
  expect_error(ErrorCode::kInvalidArgument, {"got a position of 'text_lines'"},
               [&] { restore(tf_records({path("a")}), saved); });
  expect_error(ErrorCode::kInvalidArgument, {"got 2 as number 0 of 'text_lines'"},
               [&] { restore(dataset, "iterator[0](text_lines[2,0])"); });
  expect_error(ErrorCode::kInvalidArgument, {"behind the 1 files"},
               [&] { restore(dataset, "iterator[0](text_lines[1,1])"); });
  expect_error(ErrorCode::kInvalidArgument, {path("a") + " has 6 bytes; expected at least 99"},
               [&] { restore(dataset, "iterator[0](text_lines[0,99])"); });
}

// Files in memory, of which "mem://broken" fails at its 10th byte.
class MemoryFiles final : public FileSystem {
 public:
  class File final : public ReadableFile {
   public:
    explicit File(bool broken) : broken_(broken) {}
    size_t read(uint64_t offset, std::span<std::byte> out) const override {
      STRATA_CHECK(!broken_ || offset < 10, kUnavailable, "[test] mem://broken: the cable is out");
      const size_t size = std::min<size_t>(out.size(), size_t{20} - std::min<uint64_t>(offset, 20));
      for (size_t i = 0; i < size; ++i) out[i] = std::byte((offset + i) % 5 == 4 ? '\n' : 'a');
      return size;
    }
    uint64_t size() const override { return 20; }

   private:
    bool broken_;
  };

  std::unique_ptr<ReadableFile> open(const std::string& path) const override {
    return std::make_unique<File>(path == "mem://broken");
  }
  std::unique_ptr<WritableFile> create(const std::string&) const override { return nullptr; }
  std::optional<FileInfo> info(const std::string&) const override { return std::nullopt; }
  std::vector<std::string> list(const std::string&) const override { return {}; }
  void make_folders(const std::string&) const override {}
  void rename(const std::string&, const std::string&) const override {}
  void remove(const std::string&) const override {}
  void sync_folder(const std::string&) const override {}
};

TEST_F(FilePositionsTest, ReadsThroughTheFileSystemOfThePath) {
  register_file_system("mem", std::make_unique<MemoryFiles>());
  expect_rest_from_anywhere(text_lines({"mem://a", "mem://b"}, {.buffer_size = 7}), "memory");
  Iterator iterator = text_lines({"mem://broken", "mem://b"}, {.buffer_size = 5}).iterator(0);
  EXPECT_EQ(describe_rest(iterator, 2).size(), 2u);
  expect_error(ErrorCode::kUnavailable, {"mem://broken: the cable is out (reading at offset 10)"},
               [&] { (void)iterator.next(); });
  EXPECT_EQ(describe_rest(iterator).size(), 4u);  // of the next file
}

// Damage in the middle of a compressed file: what came before is given, then the error, then the
// next file.
TEST_F(FilePositionsTest, TruncatedGzip) {
  if (!STRATA_TEST_ZLIB) return;
  const std::string whole = read_file(golden_file("lines.txt.gz"));
  const std::string cut = file("cut.gz", whole.substr(0, whole.size() - 10));
  Iterator iterator = text_lines({cut, file("next", "next")}, {.buffer_size = 4}).iterator(0);
  EXPECT_EQ(to_string(iterator.next()->x()), "first");
  expect_error(ErrorCode::kDataLoss, {cut, "compressed offset", "truncated"}, [&] {
    while (iterator.next()) {
    }
  });
  EXPECT_EQ(to_string(iterator.next()->x()), "next");
  EXPECT_FALSE(iterator.next());
}

}  // namespace
}  // namespace strata::data
