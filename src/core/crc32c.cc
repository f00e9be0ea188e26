#include "core/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace strata {
namespace detail {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: of byte b with k zero bytes behind it.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t software_crc32c(uint32_t crc, const unsigned char* data, size_t size) {
  for (; size >= 8 && std::endian::native == std::endian::little; size -= 8, data += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][word >> (8 * k) & 0xFF];
  }
  for (; size > 0; --size, ++data) crc = crc >> 8 ^ kTables[0][(crc ^ *data) & 0xFF];
  return crc;
}

}  // namespace detail

uint32_t crc32c(const void* data, size_t size, uint32_t before) {
  static const detail::Crc32cFunction function =
      detail::hardware_crc32c() ? detail::hardware_crc32c() : detail::software_crc32c;
  return ~function(~before, static_cast<const unsigned char*>(data), size);
}

}  // namespace strata
