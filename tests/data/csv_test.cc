#include "strata/data/csv.h"

#include <random>

#include "data/elements.h"
#include "data/files_support.h"
#include "strata/data/example.h"
#include "strata/data/text_file.h"
#include "support/temp_folder.h"

namespace strata::data {
namespace {

class CsvTest : public testing::Test {
 protected:
  std::string file(const std::string& bytes) {
    const std::string path = join_path(folder_.path(), "t.csv");
    write_file(path, bytes);
    return path;
  }

  // The first element's only field, a string.
  std::string text(const std::string& bytes, const CsvOptions& options = {}) {
    return to_string(
        csv({file(bytes)}, {CsvColumn::string("default")}, options).iterator(0).next()->x());
  }

  void expect_bad(const std::string& bytes, const std::vector<CsvColumn>& columns,
                  const std::string& part, const CsvOptions& options = {}) {
    const Dataset dataset = csv({file(bytes)}, columns, options);
    expect_error(ErrorCode::kDataLoss, {join_path(folder_.path(), "t.csv") + ", " + part}, [&] {
      Iterator iterator = dataset.iterator(0);
      while (iterator.next()) {
      }
    });
  }

  test::TempFolder folder_;
};

TEST_F(CsvTest, Quotes) {
  EXPECT_EQ(text("\"a,\"\"b\"\"\r\n\""), "a,\"b\"\r\n");
  EXPECT_EQ(text("\"\"\"\""), "\"");
  EXPECT_EQ(text("\"\""), "default");
  EXPECT_EQ(text("\"as\" \"it is\"", {.use_quote_delim = false}), "\"as\" \"it is\"");
  EXPECT_EQ(text("none", {.na_value = "none"}), "default");
}

TEST_F(CsvTest, MessagesNameLineAndColumn) {
  const std::vector<CsvColumn> columns = {CsvColumn::int64(), CsvColumn::float32()};
  expect_bad("1,2\n3,x\n", columns, "line 2, column 1: got \"x\"; expected a float32");
  expect_bad("1,2\n\n", columns, "line 2, column 0: got no value; expected an int64");
  expect_bad("1,\n", columns,
             "line 1, column 1: got no value; expected a float32; give the column a default");
  expect_bad("1\n", columns, "line 1: got 1 field; expected 2");
  expect_bad("1,2,3\n", columns, "line 1: got 3 fields; expected 2");
  expect_bad("x\n1,2\n", {CsvColumn::int64()}, "line 2: got 2 fields; expected at least 4",
             {.header = true, .select_cols = {3}});
  expect_bad("\"1\",\"2\n3\"\n\"4\"x,5\n", {CsvColumn::int64(), CsvColumn::string()},
             "line 3, column 0: got a quote inside of quotes that is not doubled");
  expect_bad("1,a\"b", {CsvColumn::int64(), CsvColumn::string()},
             "line 1, column 1: got a quote inside of a field without quotes");
  expect_bad("1,\"ab", {CsvColumn::int64(), CsvColumn::string()},
             "line 1, column 1: got the end of the file inside of quotes");
  expect_bad("300000000000", {CsvColumn::int32()},
             "line 1, column 0: got \"300000000000\"; expected an int32");
}

TEST_F(CsvTest, Options) {
  const auto bad = [](const std::string& part, const std::vector<CsvColumn>& columns,
                      const CsvOptions& options = {}) {
    expect_error(ErrorCode::kInvalidArgument, {part}, [&] { (void)csv({"x"}, columns, options); });
  };
  const std::vector<CsvColumn> one = {CsvColumn::int64()};
  bad("got no columns", {});
  bad("field_delim of code 34", one, {.field_delim = '"'});
  bad("field_delim of code 10", one, {.field_delim = '\n'});
  bad("got 2 select_cols and 1 column types", one, {.select_cols = {0, 1}});
  bad("got -1 as select_cols[0]", one, {.select_cols = {-1}});
  bad("got 1 as select_cols[1]", {one[0], one[0]}, {.select_cols = {1, 1}});
  bad("got buffer_size 0", one, {.buffer_size = 0});
}

TEST_F(CsvTest, MatrixOfFeaturesAndLabels) {
  const std::string path = file("a,class,b\n1.5,cat,2\n-3,dog,\n");
  EXPECT_EQ(describe(csv_matrix(
                {path}, {.label_column = 1, .classes = {"dog", "cat"}, .default_value = 9})),
            (std::vector<std::string>{"Float[2](1.5,2) Long[](1)", "Float[2](-3,9) Long[](0)"}));
  EXPECT_EQ(describe(csv_matrix({file("1,2,3\n4,5,6")}, {.header = false}).batch(2)),
            (std::vector<std::string>{"Float[2, 2](1,2,4,5) Long[2](3,6)"}));
  const auto bad = [&](const std::string& bytes, const CsvMatrixOptions& options,
                       const std::string& part) {
    const Dataset dataset = csv_matrix({file(bytes)}, options);
    expect_error(ErrorCode::kDataLoss, {part}, [&] { (void)dataset.iterator(0).next(); });
  };
  bad("h,i\n1,2,3\n", {}, "line 2: got 3 fields; expected 2");
  bad("h,i\n,2\n", {}, "line 2, column 0: got no value; expected a number");
  bad("h,i\nx,2\n", {}, "column 0: got \"x\"; expected a number");
  bad("h,i\n1,x\n", {}, "column 1: got label \"x\"; expected a whole number");
  bad("h,i\n1,x\n", {.classes = {"y"}}, "expected one of the 1 classes");
  expect_error(ErrorCode::kInvalidArgument, {"got no files"}, [] { (void)csv_matrix({}); });
  expect_error(ErrorCode::kInvalidArgument, {"is empty"}, [&] { (void)csv_matrix({file("")}); });
  expect_error(ErrorCode::kInvalidArgument, {"got label_column 2 and 2 columns"},
               [&] { (void)csv_matrix({file("a,b")}, {.label_column = 2}); });
}

// A quote that is never closed makes one record of the rest of a file.
TEST_F(CsvTest, RecordsBeyondTheLimitsEndTheirFile) {
  const std::string path = join_path(folder_.path(), "t.csv");
  const auto expect_limit = [&](const std::string& bytes, const std::string& part,
                                const CsvOptions& options) {
    const Dataset dataset = csv({file(bytes)}, {CsvColumn::string()}, options);
    Iterator iterator = dataset.iterator(0);
    ASSERT_TRUE(iterator.next());
    expect_error(ErrorCode::kResourceExhausted, {path + ", line 2: " + part},
                 [&] { (void)iterator.next(); });
    EXPECT_FALSE(iterator.next());
  };
  const std::string open = "a\n\"" + std::string(100, 'b');
  const std::string wide = "a\n" + std::string(100, ',');
  for (const size_t buffer_size : {size_t{1}, size_t{64}, size_t{1000}}) {
    expect_limit(open,
                 "got a record of more than 50 bytes; expected no more than the limit; raise "
                 "max_record_bytes",
                 {.buffer_size = buffer_size, .max_record_bytes = 50});
    expect_limit(wide,
                 "got a record of more than 50 fields; expected no more than the limit; raise "
                 "max_fields",
                 {.buffer_size = buffer_size, .max_fields = 50});
    // Exactly the limit is let in, with its line end.
    EXPECT_EQ(text("abcd\n", {.buffer_size = buffer_size, .max_record_bytes = 5}), "abcd");
  }
  expect_error(ErrorCode::kResourceExhausted, {path + ", line 1", "max_fields"},
               [&] { (void)csv_matrix({file("a,b,c\n1,2,3\n")}, {.max_fields = 2}); });
}

TEST_F(CsvTest, LinesOfTextBeyondTheLimitEndTheirFile) {
  const std::string path = file("ab\r\n" + std::string(100, 'c'));
  for (const size_t buffer_size : {size_t{1}, size_t{64}, size_t{1000}}) {
    Iterator iterator =
        text_lines({path}, {.buffer_size = buffer_size, .max_line_bytes = 2}).iterator(0);
    EXPECT_EQ(to_string(iterator.next()->x()), "ab");
    expect_error(ErrorCode::kResourceExhausted,
                 {path + ", offset 4: got a line of more than 2 bytes", "max_line_bytes"},
                 [&] { (void)iterator.next(); });
    EXPECT_FALSE(iterator.next());
  }
}

// Whatever the bytes: the buffer's size does not matter, nor where the reading is broken off, and
// it ends.
TEST_F(CsvTest, AnyBytesGiveTheSameRecordsForEveryBuffer) {
  std::mt19937 random(1);
  const std::string letters = "a1,\"\"\n\r";
  const std::vector<CsvColumn> columns(2, CsvColumn::string(""));
  const auto read = [&](Iterator iterator, std::string* saved = nullptr) {
    std::vector<std::string> all;
    for (;;) {
      if (saved != nullptr && all.size() == 2) *saved = iterator.position().to_string();
      try {
        const auto record = iterator.next();
        if (!record) return all;
        all.push_back(describe(*record));
      } catch (const Error& error) {
        all.emplace_back(error.what());
      }
    }
  };
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (size_t n = random() % 60; n > 0; --n) bytes += letters[random() % letters.size()];
    const std::string path = file(bytes);
    std::string saved;
    const auto wanted = read(csv({path}, columns).iterator(0), &saved);
    const Dataset small = csv({path}, columns, {.buffer_size = 1 + random() % 5});
    EXPECT_EQ(read(small.iterator(0)), wanted) << bytes;
    if (saved.empty()) continue;
    Iterator rest = small.iterator(0);
    rest.restore(Position::from_string(saved));
    EXPECT_EQ(read(std::move(rest)), std::vector<std::string>(wanted.begin() + 2, wanted.end()))
        << bytes;
  }
}

}  // namespace
}  // namespace strata::data
