#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "strata/core/error.h"

namespace strata::keras_files::h5 {

using Bytes = std::span<const std::byte>;

/// @throws Error kDataLoss: "damaged (what)".
[[noreturn]] inline void damaged(const char* what) {
  throw Error(ErrorCode::kDataLoss, str_cat("damaged (", what, ")"));
}

/// Part of `bytes`; what lies outside is damage.
inline Bytes slice(Bytes bytes, uint64_t begin, uint64_t size, const char* what) {
  if (begin > bytes.size() || size > bytes.size() - begin) damaged(what);
  return bytes.subspan(begin, size);
}

/// Bytes taken from the front; too few are damage.
class Cursor {
 public:
  Cursor(Bytes bytes, const char* what) : bytes_(bytes), what_(what) {}

  uint64_t left() const { return bytes_.size(); }
  Bytes take(uint64_t size) {
    if (size > bytes_.size()) damaged(what_);
    const Bytes taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  Bytes rest() { return take(left()); }
  /// A little-endian number of 1 to 8 bytes.
  uint64_t number(uint64_t width) {
    uint64_t value = 0;
    int shift = 0;
    for (const std::byte byte : take(width)) {
      value |= static_cast<uint64_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }
  std::string text(uint64_t size) {
    const Bytes taken = take(size);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  /// Four letters, or damage.
  void signature(const char* letters) {
    if (text(4) != letters) damaged(what_);
  }
  bool starts_with(std::string_view text) const {
    return bytes_.size() >= text.size() &&
           std::memcmp(bytes_.data(), text.data(), text.size()) == 0;
  }

 private:
  Bytes bytes_;
  const char* what_;
};

/// The address that means "nowhere".
inline constexpr uint64_t kNowhere = ~uint64_t{0};

inline uint64_t padded(uint64_t size) { return (size + 7) / 8 * 8; }

}  // namespace strata::keras_files::h5
