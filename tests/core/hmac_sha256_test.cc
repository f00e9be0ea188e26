#include "core/hmac_sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace strata::detail {
namespace {

std::string hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// RFC 4231, section 4; its case 5 is of a shortened result, here it is whole (Python's hmac).
TEST(HmacSha256Test, KnownResults) {
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counted;
  for (char i = 1; i <= 25; ++i) counted += i;
  EXPECT_EQ(hex(hmac_sha256(counted, std::string(50, '\xcd'))),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0c'), "Test With Truncation")),
            "a3b6167473100ee06e0c796c2955552bfa6f7c0a6a8aef8b93f860aab0cd20c5");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'),
                            "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'),
                            "This is a test using a larger than block-size key and a larger than "
                            "block-size data. The key needs to be hashed before being used by the "
                            "HMAC algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

// Of Python's hmac.new(bytes(key), bytes(message), "sha256"): around the sizes of a block.
TEST(HmacSha256Test, KeysOfEveryKindOfLength) {
  const auto key = [](size_t size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += static_cast<char>(i);
    return text;
  };
  const struct {
    size_t size;
    const char* result;
  } cases[] = {
      {0, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
      {1, "4902081c88971a8dd5f7be26988d7b8cc3961202bfc3b196b5880fbb957c0789"},
      {63, "d302aeea9b35cc907ae65110fe3d7a37eca8d5fa8fb34b8a6b15eef8b71df93f"},
      {64, "f5dcf3e5951661778de40a4008ecfc9f6aa5ae987c6791d4da2c6d499e35ebc8"},
      {65, "b3cef55ba06ef9d5a1ba31aa5fb05c4d42e1edbf94b175fe51c0ee68ab61a419"},
      {128, "4a9e979d4516c0643500a2785afd74fa26e481978bec67b36f56d2ee36ee32f9"},
  };
  for (const auto& each : cases) {
    std::string message;
    for (size_t i = 0; i < each.size; ++i) message += "message ";
    EXPECT_EQ(hex(hmac_sha256(key(each.size), message)), each.result) << each.size;
  }
}

TEST(HmacSha256Test, EqualMeansAllBytes) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time(std::string("a\0b", 3), std::string("a\0b", 3)));
  EXPECT_FALSE(equal_in_constant_time(std::string("a\0b", 3), std::string("a\0c", 3)));
  EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
  const std::string text(32, 'x');
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(equal_in_constant_time(text, other)) << i;
  }
}

}  // namespace
}  // namespace strata::detail
