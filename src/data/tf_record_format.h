#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "strata/core/crc32c.h"

// A record: its length (8 bytes), the length's masked CRC-32C (4), the data, the data's (4); all
// little-endian.
namespace strata::data::detail {

inline constexpr size_t kRecordHeader = 12;
inline constexpr size_t kRecordFooter = 4;

template <class T>
T little_endian(const char* bytes) {
  T value{};
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

template <class T>
void put_little_endian(T value, char* bytes) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(value >> (8 * i) & 0xFF);
}

/// @return false: the checksum is wrong.
inline bool parse_record_header(const char* bytes, uint64_t& length) {
  length = little_endian<uint64_t>(bytes);
  return mask_crc32c(crc32c(bytes, 8)) == little_endian<uint32_t>(bytes + 8);
}

}  // namespace strata::data::detail
