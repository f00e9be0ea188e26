#include "core/sha256.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/sha256_blocks.h"

namespace strata {
namespace {

std::string digest(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex_digest();
}

// FIPS 180-4's examples.
TEST(Sha256Test, KnownDigests) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesOfAnySizeMakeTheSameDigest) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  const std::string whole = digest(text);
  for (const size_t step : {1U, 3U, 63U, 64U, 65U, 128U, 999U}) {
    Sha256 hash;
    for (size_t at = 0; at < text.size(); at += step) {
      hash.update(text.data() + at, std::min(step, text.size() - at));
    }
    EXPECT_EQ(hash.hex_digest(), whole) << step;
  }
}

TEST(Sha256Test, InstructionsOfTheProcessorAgreeWithThePlainCode) {
  std::vector<uint8_t> blocks(64 * 9);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<uint8_t>(i * i + 3);
  std::vector<uint32_t> plain = {1, 2, 3, 4, 5, 6, 7, 0xffffffff};
  std::vector<uint32_t> fast = plain;
  detail::sha256_blocks(plain.data(), blocks.data(), 9);
  detail::sha256_blocks_of_this_processor()(fast.data(), blocks.data(), 9);
  EXPECT_EQ(plain, fast);
}

}  // namespace
}  // namespace strata
