#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "strata/core/error.h"

// The wire format of Protocol Buffers, as much of it as is needed here
// (protobuf.dev/programming-guides/encoding). Whole messages: proto_message.h.
namespace strata::detail {

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// For errors: who reads ("[data] parse_example"), and what ("a tf.train.Example").
struct WireText {
  const char* call;
  const char* expected;
};

/// Reads the fields of one message, never beyond its end.
class WireReader {
 public:
  /// @param whole  What `message` is a part of: offsets in errors count from its beginning.
  /// @param text  Must outlive the reader.
  WireReader(std::string_view message, std::string_view whole, const WireText& text)
      : at_(message.data()),
        end_(message.data() + message.size()),
        begin_(whole.data()),
        text_(&text) {}

  /// A reader of a message within this one.
  WireReader nested(std::string_view message) const {
    return WireReader(message, {begin_, 0}, *text_);
  }

  bool at_end() const { return at_ == end_; }
  size_t bytes_left() const { return static_cast<size_t>(end_ - at_); }

  /// The next field's number. @throws Error kDataLoss, as all calls.
  uint32_t field(WireType& type) {
    const uint64_t key = varint();
    if (key >> 32 != 0 || key >> 3 == 0) [[unlikely]]
      fail("an invalid field number");
    type = static_cast<WireType>(key & 7);
    return static_cast<uint32_t>(key >> 3);
  }

  uint64_t varint() {
    if (at_ < end_ && static_cast<signed char>(*at_) >= 0) return static_cast<uint64_t>(*at_++);
    return long_varint();
  }

  /// A number of fixed size, as its bits.
  template <class T>
  T fixed() {
    const std::string_view bytes = take(sizeof(T));
    T value{};
    for (size_t i = 0; i < sizeof(T); ++i)
      value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return value;
  }

  std::string_view bytes() {
    const uint64_t size = varint();
    if (size > bytes_left()) [[unlikely]]
      fail("a length beyond the end");
    return take(static_cast<size_t>(size));
  }

  std::string_view take(size_t size) {
    if (size > bytes_left()) [[unlikely]]
      fail("the end");
    const std::string_view taken(at_, size);
    at_ += size;
    return taken;
  }

  void skip(WireType type) {
    switch (type) {
      case WireType::kVarint:
        varint();
        return;
      case WireType::kFixed64:
        take(8);
        return;
      case WireType::kBytes:
        bytes();
        return;
      case WireType::kFixed32:
        take(4);
        return;
    }
    fail("an invalid wire type");  // groups: deprecated since 2008
  }

  [[noreturn]] void fail(const char* got) const {
    throw Error(ErrorCode::kDataLoss, str_cat(text_->call, ": offset ", at_ - begin_, ": got ", got,
                                              "; expected the bytes of ", text_->expected));
  }

 private:
  uint64_t long_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) fail("the end inside of a number");
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than 10 bytes");
  }

  const char* at_;
  const char* end_;
  const char* begin_;
  const WireText* text_;
};

inline void put_varint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

inline void put_key(uint32_t field, WireType type, std::string& out) {
  put_varint(field << 3 | static_cast<uint32_t>(type), out);
}

inline void put_bytes(uint32_t field, std::string_view bytes, std::string& out) {
  put_key(field, WireType::kBytes, out);
  put_varint(bytes.size(), out);
  out += bytes;
}

inline void put_integer(uint32_t field, int64_t value, std::string& out) {
  put_key(field, WireType::kVarint, out);
  put_varint(static_cast<uint64_t>(value), out);
}

/// The bits of `value`, little-endian, without a key.
template <class T>
void put_fixed(T value, std::string& out) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

inline void put_double(uint32_t field, double value, std::string& out) {
  put_key(field, WireType::kFixed64, out);
  put_fixed(std::bit_cast<uint64_t>(value), out);
}

inline void put_float(uint32_t field, float value, std::string& out) {
  put_key(field, WireType::kFixed32, out);
  put_fixed(std::bit_cast<uint32_t>(value), out);
}

}  // namespace strata::detail
