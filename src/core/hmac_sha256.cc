#include "core/hmac_sha256.h"

#include <cstddef>

#include "core/sha256.h"

namespace strata::detail {
namespace {

constexpr size_t kBlock = 64;
constexpr char kInner = 0x36;
constexpr char kOuter = 0x5c;

char value_of(char digit) {
  return static_cast<char>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

std::string digest(std::string_view first, std::string_view second = {}) {
  Sha256 hash;
  hash.update(first.data(), first.size());
  hash.update(second.data(), second.size());
  const std::string digits = hash.hex_digest();
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(value_of(digits[i]) << 4 | value_of(digits[i + 1]));
  }
  return bytes;
}

std::string padded(std::string key, char with) {
  key.resize(kBlock);
  for (char& byte : key) byte = static_cast<char>(byte ^ with);
  return key;
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view message) {
  const std::string block = key.size() > kBlock ? digest(key) : std::string(key);
  return digest(padded(block, kOuter), digest(padded(block, kInner), message));
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

}  // namespace strata::detail
