#include <algorithm>
#include <array>
#include <cstdint>

#include "summary/gzip.h"

// Deflate's blocks of stored bytes (RFC 1951, 3.2.4), in the frame of gzip.
namespace strata::summary::detail {
namespace {

uint32_t crc32(std::string_view bytes) {
  static const auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0xEDB88320 : c >> 1;
      table[i] = c;
    }
    return table;
  }();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 255];
  return ~crc;
}

void put(uint32_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

}  // namespace

std::string gzip(std::string_view bytes) {
  constexpr std::string_view kHeader("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  std::string out(kHeader);
  std::string_view left = bytes;
  do {
    const std::string_view block = left.substr(0, 0xFFFF);
    left.remove_prefix(block.size());
    const auto size = static_cast<uint32_t>(block.size());
    put(left.empty() ? 1 : 0, 1, out);
    put(size, 2, out);
    put(~size, 2, out);
    out += block;
  } while (!left.empty());
  put(crc32(bytes), 4, out);
  put(static_cast<uint32_t>(bytes.size()), 4, out);
  return out;
}

}  // namespace strata::summary::detail
