#include "strata/data/mnist.h"

#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "data/elements.h"

namespace strata::data {
namespace {

namespace fs = std::filesystem;

std::string gzipped(const std::string& bytes) {
  z_stream zlib{};
  EXPECT_EQ(
      deflateInit2(&zlib, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  std::string out(bytes.size() + 1000, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

// Three rows of two bytes.
const std::string kHeader("\0\0\x08\x02\0\0\0\x03\0\0\0\x02", 12);
const std::string kGood = kHeader + std::string("\0\x01\x02\x03\x04\xFF", 6);

class IdxFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("strata_idx_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& bytes, const std::string& name = "test.idx") {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  std::string read(const std::string& bytes) {
    return describe(Example{read_idx_file(file(bytes))});
  }

  // Reading `bytes` fails; the message names the file and holds `parts`.
  void expect_bad(const std::string& bytes, std::vector<std::string> parts) {
    const std::string path = file(bytes);
    parts.push_back(path);
    expect_error(ErrorCode::kDataLoss, parts, [&] { (void)read_idx_file(path); });
  }

  fs::path folder_;
};

TEST_F(IdxFileTest, ReadsPlainAndGzipped) {
  EXPECT_EQ(read(kGood), "Byte[3, 2](0,1,2,3,4,255)");
  EXPECT_EQ(read(gzipped(kGood)), "Byte[3, 2](0,1,2,3,4,255)");
  // Two gzip members, as `cat a.gz b.gz` makes them.
  EXPECT_EQ(read(gzipped(kGood.substr(0, 9)) + gzipped(kGood.substr(9))),
            "Byte[3, 2](0,1,2,3,4,255)");
}

TEST_F(IdxFileTest, ReadsEveryType) {
  const std::string one_row("\0\0\0\x01", 4);
  const auto type = [&](char code, const std::string& value) {
    return read(std::string("\0\0", 2) + code + '\x01' + one_row + value);
  };
  EXPECT_EQ(type(0x08, "\xFE"), "Byte[1](254)");
  EXPECT_EQ(type(0x09, "\xFE"), "Char[1](-2)");
  EXPECT_EQ(type(0x0B, "\xFE\x02"), "Short[1](-510)");
  EXPECT_EQ(type(0x0C, std::string("\xFF\0\0\x01", 4)), "Int[1](-1.67772e+07)");
  EXPECT_EQ(type(0x0D, std::string("\x3F\xC0\0\0", 4)), "Float[1](1.5)");
  EXPECT_EQ(type(0x0E, std::string("\xC0\x04\0\0\0\0\0\0", 8)), "Double[1](-2.5)");
}

TEST_F(IdxFileTest, MayHoldNothing) {
  EXPECT_EQ(read(std::string("\0\0\x08\x02\0\0\0\0\0\0\0\x02", 12)), "Byte[0, 2]()");
  EXPECT_EQ(read(std::string("\0\0\x08\x02\xFF\xFF\xFF\xFF\0\0\0\0", 12)), "Byte[4294967295, 0]()");
}

TEST_F(IdxFileTest, SaysWhereItIsCutOff) {
  for (const bool gzip : {false, true}) {
    const auto bad = [&](const std::string& bytes, const std::vector<std::string>& parts) {
      expect_bad(gzip ? gzipped(bytes) : bytes, parts);
    };
    bad("", {"offset 0: got the end", "expected a magic number"});
    bad(kGood.substr(0, 3), {"offset 3: got the end", "magic number"});
    bad(kGood.substr(0, 6), {"offset 6: got the end", "size of dimension 0 of 2"});
    bad(kGood.substr(0, 10), {"offset 10: got the end", "size of dimension 1 of 2"});
  }
  expect_bad(gzipped(kGood.substr(0, 16)),
             {"offset 16: got the end", "expected 2 more bytes of the 6 that sizes [3, 2] need"});
  expect_bad(std::string("\0\0\x08\x01\0\0\0\x09", 8) + "1234567",
             {"offset 15: got the end", "expected 2 more bytes of the 9"});
}

TEST_F(IdxFileTest, SaysWhatIsNotIdx) {
  expect_bad("\x89PNG and so on",
             {"offset 0: got bytes 0x89 0x50; expected 0x00 0x00", "not an IDX"});
  expect_bad(std::string("\0\0\x07\x01\0\0\0\x01x", 9), {"offset 2: got type code 0x07"});
  expect_bad(std::string("\0\0\x08\0x", 5), {"offset 3: got 0 dimensions; expected 1 to 64"});
  expect_bad(std::string("\0\0\x08\x41x", 5), {"offset 3: got 65 dimensions"});
  expect_bad(kGood + "x", {"offset 18: got more data; expected the end behind sizes [3, 2]"});
  expect_bad(gzipped(kGood + "x"), {"offset 18: got more data"});
}

// Nothing is allocated for a size that the file cannot hold.
TEST_F(IdxFileTest, HugeSizesAreRefused) {
  const std::string huge("\0\0\x0E\x02\xFF\xFF\xFF\xFF\0\0\xFF\xFF", 12);
  expect_bad(huge, {"offset 4: got sizes [4294967295, 65535] of 8 bytes a value",
                    "2251765453422600 bytes", "no more than the file can hold, 12"});
  expect_bad(gzipped(huge), {"offset 4: got sizes", "no more than the file can hold"});
  const std::string overflow("\0\0\x0E\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 12);
  expect_bad(overflow, {"2^63 or more bytes"});
  std::string none("\0\0\x08\x04", 4);
  none.append(12, '\xFF').append(4, '\0');
  expect_bad(none, {"got sizes [4294967295, 4294967295, 4294967295, 0]", "2^63 or more bytes"});
}

TEST_F(IdxFileTest, WhatUnpackingMakesIsBounded) {
  // 2^25 zeros, which gzip makes a thousandth of.
  const std::string bytes =
      std::string("\0\0\x08\x01\x02\0\0\0", 8) + std::string(size_t{1} << 25, '\0');
  const std::string packed = file(gzipped(bytes));
  expect_error(ErrorCode::kResourceExhausted, {packed, "33554432", "ReadLimits::expansion"},
               [&] { (void)read_idx_file(packed); });
  expect_error(ErrorCode::kResourceExhausted, {packed, "33554432", "ReadLimits::unpacked_bytes"},
               [&] { (void)read_idx_file(packed, {.unpacked_bytes = 1000, .expansion = 2000}); });
  EXPECT_EQ(read_idx_file(packed, {.expansion = 2000}).numel(), 1 << 25);
  EXPECT_EQ(read_idx_file(file(bytes), {.unpacked_bytes = 0, .expansion = 1}).numel(), 1 << 25);
}

TEST_F(IdxFileTest, DamagedGzipIsFound) {
  const std::string good = gzipped(kGood);
  std::string bad_sum = good;
  bad_sum[good.size() - 8] ^= 1;
  expect_bad(bad_sum, {"gzip", "compressed offset", "incorrect data check"});
  std::string bad_length = good;
  bad_length[good.size() - 4] ^= 1;
  expect_bad(bad_length, {"incorrect length check"});
  expect_bad(good.substr(0, good.size() - 3), {"got the end of the file", "truncated"});
  expect_bad(good.substr(0, 5), {"compressed offset 5: got the end of the file", "truncated"});
  expect_bad(good + "tail", {"got damaged data", "incorrect header check"});
  std::string bad_method = good;
  bad_method[2] = 7;
  expect_bad(bad_method, {"got damaged data", "unknown compression method"});
}

TEST_F(IdxFileTest, FilesThatCannotBeOpened) {
  const std::string missing = (folder_ / "missing.idx").string();
  expect_error(ErrorCode::kNotFound, {missing, "No such file"},
               [&] { (void)read_idx_file(missing); });
  expect_error(ErrorCode::kFailedPrecondition, {folder_.string(), "Is a directory"},
               [&] { (void)read_idx_file(folder_.string()); });
}

TEST_F(IdxFileTest, TwoFilesMakeADataset) {
  const std::string images = file(kGood, "images");
  const std::string labels = file(std::string("\0\0\x08\x01\0\0\0\x03\x07\x08\x09", 11), "labels");
  const std::string fewer = file(std::string("\0\0\x08\x01\0\0\0\x02\x07\x08", 10), "fewer");
  EXPECT_EQ(describe(Dataset::idx_files(images, labels).batch(2)),
            (std::vector<std::string>{"Byte[2, 2](0,1,2,3) Byte[2](7,8)",
                                      "Byte[1, 2](4,255) Byte[1](9)"}));
  expect_error(ErrorCode::kInvalidArgument, {"[3, 2] in " + images, "[2] in " + fewer},
               [&] { (void)Dataset::idx_files(images, fewer); });
}

}  // namespace
}  // namespace strata::data
