// Images of a few bytes that ask for much memory or time.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "strata/data/image_codec.h"
#include "support/cost_of.h"
#include "support/expect_error.h"

namespace strata::data {
namespace {

std::string big_endian(uint64_t value, int width) {
  std::string bytes;
  while (width-- > 0) bytes += static_cast<char>(value >> (8 * width));
  return bytes;
}

std::string segment(int marker, const std::string& data) {
  return std::string("\xFF") + static_cast<char>(marker) + big_endian(data.size() + 2, 2) + data;
}

/// A progressive grey JPEG without anything in it: a scan says in some bytes that 32767 blocks at a
/// time are empty.
std::string empty_jpeg(uint64_t height, uint64_t width, int scans) {
  const std::string frame = std::string("\x08") + big_endian(height, 2) + big_endian(width, 2) +
                            std::string("\x01\x01\x11\x00", 4);
  // One code: 0 for a difference of 0, or for a run of 2^14 empty blocks and more.
  const auto table = [](int kind, int symbol) {
    return segment(0xC4, std::string(1, static_cast<char>(kind)) + "\x01" + std::string(15, '\0') +
                             static_cast<char>(symbol));
  };
  std::string bytes = "\xFF\xD8" + segment(0xDB, std::string(1, '\0') + std::string(64, '\x01')) +
                      segment(0xC2, frame) + table(0x00, 0x00) + table(0x10, 0xE0);
  const uint64_t blocks = ((height + 7) / 8) * ((width + 7) / 8);
  bytes += segment(0xDA, std::string("\x01\x01\x00\x00\x00\x00", 6));
  bytes += std::string(blocks / 8 + 1, '\0');
  for (int i = 0; i < scans; ++i) {
    bytes += segment(0xDA, std::string("\x01\x01\x00\x01\x3F\x00", 6));
    // A bit of code and 14 of length, all zeros: 16384 blocks.
    bytes += std::string((blocks / 16384 + 1) * 15 / 8 + 1, '\0');
  }
  return bytes + "\xFF\xD9";
}

TEST(HostileJpegTest, ALargeImageIsRefusedThoughItWouldBeReduced) {
  if (!STRATA_TEST_JPEG) return;
  std::string bytes = empty_jpeg(64, 64, 1);
  const std::string size = big_endian(64, 2) + big_endian(64, 2);
  bytes.replace(bytes.find(size), 4, big_endian(65500, 2) + big_endian(65500, 2));
  for (const int64_t wanted : {0, 224}) {
    test::expect_refused_cheaply(
        [&] { decode_image(bytes, {.min_height = wanted, .min_width = wanted, .name = "x.jpg"}); },
        ErrorCode::kResourceExhausted,
        "got an image of 65500 x 65500 x 1; expected fewer than 536870912 values "
        "(DecodeOptions::max_values raises it)");
  }
  bytes.replace(bytes.find(big_endian(65500, 2)), 4, big_endian(20000, 2) + big_endian(20000, 2));
  test::expect_refused_cheaply([&] { decode_image(bytes); }, ErrorCode::kResourceExhausted,
                               "expected at most 10000 values a byte "
                               "(DecodeOptions::max_values_per_byte raises it)");
}

TEST(HostileJpegTest, AThousandScansAreRefused) {
  if (!STRATA_TEST_JPEG) return;
  EXPECT_EQ(decode_image(empty_jpeg(640, 640, 50)).sizes(), at::IntArrayRef({640, 640, 1}));
  const std::string bytes = empty_jpeg(2048, 2048, 1000);
  test::expect_refused_cheaply([&] { decode_image(bytes); }, ErrorCode::kResourceExhausted,
                               "got more than 100 scans of an image of 2048 x 2048 x 1 in ");
  expect_error_containing([&] { decode_image(bytes, {.max_scans = 900}); },
                          ErrorCode::kResourceExhausted,
                          "bytes; expected at most so many (DecodeOptions::");
  EXPECT_EQ(decode_image(bytes, {.max_values_per_byte = 1'000'000, .max_scans = 2000}).size(0),
            2048);
}

// Few scans, and each of them over many pixels.
TEST(HostileJpegTest, ScansOfALargeImageAreRefused) {
  if (!STRATA_TEST_JPEG) return;
  const std::string bytes = empty_jpeg(4000, 4000, 60);
  test::expect_refused_cheaply([&] { decode_image(bytes, {.max_values_per_byte = 1000}); },
                               ErrorCode::kResourceExhausted,
                               "got more than 33 scans of an image of 4000 x 4000 x 1 in ");
  EXPECT_EQ(decode_image(empty_jpeg(4000, 4000, 30)).size(0), 4000);
}

TEST(HostilePngTest, ALargeImageIsRefused) {
  if (!STRATA_TEST_PNG) return;
  const std::string small = encode_png(at::zeros({4, 4, 3}, at::kByte));
  EXPECT_EQ(decode_image(small, {.max_values = 65}).size(0), 4);
  expect_error_containing([&] { decode_image(small, {.max_values = 64}); },
                          ErrorCode::kResourceExhausted,
                          "got an image of 4 x 4 x 4; expected fewer than 64 values");
}

}  // namespace
}  // namespace strata::data
