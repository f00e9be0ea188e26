#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "core/crc32c.h"

namespace strata {
namespace {

uint32_t crc_of(const std::string& bytes) { return crc32c(bytes.data(), bytes.size()); }

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32cTest, KnownValues) {
  EXPECT_EQ(crc_of(""), 0u);
  EXPECT_EQ(crc_of("123456789"), 0xE3069283u);
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc_of(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string rising(32, '\0'), falling(32, '\0');
  for (int i = 0; i < 32; ++i) {
    rising[static_cast<size_t>(i)] = static_cast<char>(i);
    falling[static_cast<size_t>(i)] = static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc_of(rising), 0x46DD794Eu);
  EXPECT_EQ(crc_of(falling), 0x113FDB5Cu);
  EXPECT_EQ(mask_crc32c(0), 0xA282EAD8u);
}

std::string noise(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& c : bytes) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

TEST(Crc32cTest, HardwareAndSoftwareAgreeAtEverySizeAndAlignment) {
  const std::string bytes = noise(40000);
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  for (size_t size = 0; size < 38000; size += size < 1700 ? 1 : 997) {
    const size_t at = size % 13;
    EXPECT_EQ(crc32c(data + at, size), ~detail::software_crc32c(~0u, data + at, size)) << size;
  }
}

TEST(Crc32cTest, GoesOnBehindWhatCameBefore) {
  const std::string bytes = noise(5000);
  for (const size_t cut : {0, 1, 7, 800, 4999, 5000})
    EXPECT_EQ(crc32c(bytes.data() + cut, bytes.size() - cut, crc32c(bytes.data(), cut)),
              crc_of(bytes));
}

}  // namespace
}  // namespace strata
