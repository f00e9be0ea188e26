#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/crc32c.h"

// The records of TFRecord and TensorBoard event files: a length (8 bytes), the length's masked
// CRC-32C (4), the data, the data's (4); all little-endian.
namespace strata::detail {

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

inline void put_record_header(size_t size, char* header) {
  put_little_endian<uint64_t>(size, header);
  put_little_endian<uint32_t>(mask_crc32c(crc32c(header, 8)), header + 8);
}

inline void put_record_footer(std::string_view data, char* footer) {
  put_little_endian<uint32_t>(mask_crc32c(crc32c(data.data(), data.size())), footer);
}

inline void append_record(std::string_view data, std::string& out) {
  char header[kRecordHeader], footer[kRecordFooter];
  put_record_header(data.size(), header);
  put_record_footer(data, footer);
  out.append(header, kRecordHeader).append(data).append(footer, kRecordFooter);
}

/// @return false: the checksum is wrong.
inline bool parse_record_header(const char* bytes, uint64_t& length) {
  length = little_endian<uint64_t>(bytes);
  return mask_crc32c(crc32c(bytes, 8)) == little_endian<uint32_t>(bytes + 8);
}

}  // namespace strata::detail
