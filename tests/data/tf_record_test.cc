#include "strata/data/tf_record.h"

#include "data/elements.h"
#include "data/files_support.h"
#include "strata/core/log.h"
#include "support/temp_folder.h"

namespace strata::data {
namespace {

class TfRecordTest : public testing::Test {
 protected:
  // Warnings are kept, not shown.
  void SetUp() override {
    set_log_sink([this](const LogRecord& record) { warnings_.emplace_back(record.message); });
  }
  void TearDown() override { set_log_sink({}); }

  std::string path(const std::string& name = "test.tfrecord") const {
    return join_path(folder_.path(), name);
  }

  // Record i is `sizes[i]` times the letter number i.
  std::string write(const std::vector<size_t>& sizes,
                    Compression compression = Compression::kNone) {
    TfRecordWriter writer(path(), {.compression = compression});
    char letter = 'a';
    for (const size_t size : sizes) writer.write(std::string(size, letter++));
    writer.close();
    return path();
  }

  // The first letters of the records; '!' for an error, whose text is kept.
  std::string letters(const Dataset& dataset) {
    std::string all;
    Iterator iterator = dataset.iterator(0);
    for (;;) {
      try {
        const auto record = iterator.next();
        if (!record) return all;
        all += record->x().numel() == 0 ? '-' : bytes_of(record->x())[0];
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
        EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
        all += '!';
        error_ = error.what();
        if (all.size() > 100) return all;
      }
    }
  }

  test::TempFolder folder_;
  std::string error_;
  std::vector<std::string> warnings_;
};

TEST_F(TfRecordTest, WhatIsWrittenIsRead) {
  std::vector<Compression> kinds = {Compression::kNone};
  if (STRATA_TEST_ZLIB) kinds.insert(kinds.end(), {Compression::kGzip, Compression::kZlib});
  for (const Compression kind : kinds) {
    write({1, 0, 300000, 17}, kind);
    EXPECT_EQ(letters(tf_records({path()})), "a-cd");
    EXPECT_EQ(letters(tf_records({path()}, {.compression = kind})), "a-cd");
    EXPECT_EQ(tf_records({path()}).skip(2).iterator(0).next()->x().numel(), 300000);
  }
}

TEST_F(TfRecordTest, EveryDamagedByteIsFoundAndTheOtherRecordsAreRead) {
  write({20, 20, 20});
  const std::string good = read_file(path());
  constexpr size_t kRecord = 12 + 20 + 4;
  ASSERT_EQ(good.size(), 3 * kRecord);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write_file(path(), bad);
    std::string expected = "abc";
    expected[i / kRecord] = '!';
    EXPECT_EQ(letters(tf_records({path()})), expected) << "byte " << i;
    EXPECT_NE(error_.find(str_cat("offset ", i / kRecord * kRecord, ", record ", i / kRecord)),
              std::string::npos)
        << error_;
    const auto damaged = std::make_shared<std::atomic<int64_t>>(0);
    const Dataset skipping = tf_records({path()}, {.skip_damaged = true, .damaged = damaged});
    expected.erase(i / kRecord, 1);
    warnings_.clear();
    EXPECT_EQ(letters(skipping), expected);
    EXPECT_EQ(damaged->load(), 1);
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_NE(warnings_[0].find(path()), std::string::npos) << warnings_[0];
    EXPECT_EQ(letters(skipping.skip(1)), expected.substr(1));
  }
}

TEST_F(TfRecordTest, EveryTruncationIsFound) {
  write({20, 20});
  const std::string good = read_file(path());
  constexpr size_t kRecord = 12 + 20 + 4;
  for (size_t size = 0; size <= good.size(); ++size) {
    write_file(path(), good.substr(0, size));
    const std::string whole = std::string("ab").substr(0, size / kRecord);
    EXPECT_EQ(letters(tf_records({path()})), whole + (size % kRecord == 0 ? "" : "!")) << size;
    EXPECT_EQ(letters(tf_records({path()}, {.skip_damaged = true})), whole);
  }
}

TEST_F(TfRecordTest, Messages) {
  write({20, 20});
  const std::string good = read_file(path());
  const auto first_error = [&](const std::string& bytes) {
    write_file(path(), bytes);
    letters(tf_records({path()}));
    return error_;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(first_error("not a record file, but text of some length"), "this is no TFRecord file");
  has(first_error(good.substr(0, 40)), "got the end of the file after 4 bytes");
  has(first_error(good.substr(0, 50)), "expected no more than the 2 that can follow");
  std::string bad_data = good;
  bad_data[36 + 15] = 'X';
  has(first_error(bad_data), "offset 36, record 1: got checksum");
  expect_error(ErrorCode::kInvalidArgument, {"got compression kAuto"},
               [&] { TfRecordWriter(path(), {.compression = Compression::kAuto}); });
  expect_error(ErrorCode::kInvalidArgument, {"got level 10"},
               [&] { TfRecordWriter(path(), {.level = 10}); });
  expect_error(ErrorCode::kInvalidArgument, {"got buffer_size 0"},
               [&] { (void)tf_records({}, {.buffer_size = 0}); });
}

TEST_F(TfRecordTest, RecordsBeyondTheLimitArePassedOver) {
  std::vector<Compression> kinds = {Compression::kNone};
  if (STRATA_TEST_ZLIB) kinds.push_back(Compression::kGzip);
  for (const Compression kind : kinds) {
    const Dataset dataset = tf_records({write({3, 1000, 4}, kind)}, {.max_record_bytes = 999});
    Iterator iterator = dataset.iterator(0);
    EXPECT_EQ(iterator.next()->x().numel(), 3);
    expect_error(
        ErrorCode::kResourceExhausted,
        {path() + ", offset 19, record 1: got a record of 1000 bytes; expected at most 999; "
                  "raise TfRecordOptions::max_record_bytes"},
        [&] { (void)iterator.next(); });
    EXPECT_EQ(iterator.next()->x().numel(), 4);
    EXPECT_FALSE(iterator.next());
  }
}

TEST_F(TfRecordTest, WritersCloseThemselves) {
  {
    TfRecordWriter writer(path());
    writer.write("abc");
    TfRecordWriter other(path("other"));
    other.write("x");
    other = std::move(writer);
    other.write("def");
  }
  EXPECT_EQ(letters(tf_records({path()})), "ad");
  EXPECT_EQ(letters(tf_records({path("other")})), "x");
  TfRecordWriter writer(path());
  writer.close();
  expect_error(ErrorCode::kFailedPrecondition, {"after close"}, [&] { writer.write("x"); });
  expect_error(ErrorCode::kFailedPrecondition, {"second call"}, [&] { writer.close(); });
}

}  // namespace
}  // namespace strata::data
