#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/files/byte_reader.h"

namespace strata::data::detail {

/// Looks ahead in a ByteReader, and counts where it is. Behind an error of the ByteReader it is at
/// the end.
class BufferedReader {
 public:
  BufferedReader(std::unique_ptr<ByteReader> bytes, size_t buffer_size);

  /// The next bytes, at least `wanted` if there are so many; valid until the next call.
  std::span<const char> peek(size_t wanted) {
    if (end_ - begin_ < wanted) fill(wanted);
    return {buffer_.data() + begin_, end_ - begin_};
  }

  /// Passes over bytes that `peek` showed.
  void consume(size_t size) { begin_ += size, offset_ += size; }

  /// Reads to `out`, large pieces without the buffer. @return fewer than `size` only at the end.
  size_t read(char* out, size_t size);

  /// @return how many there were.
  uint64_t skip(uint64_t size);

  /// Of the next byte, decompressed.
  uint64_t offset() const { return offset_; }

  /// No more than so many bytes lie ahead.
  uint64_t bytes_left_bound() const;

 private:
  void fill(size_t wanted);
  size_t read_more(char* out, size_t size);

  std::unique_ptr<ByteReader> bytes_;
  uint64_t size_bound_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // in buffer_, of what is ahead
  size_t end_ = 0;
  uint64_t offset_ = 0;
  bool ended_ = false;
};

}  // namespace strata::data::detail
