#include "data/files/buffered_reader.h"

#include <algorithm>
#include <cstring>

namespace strata::data::detail {

BufferedReader::BufferedReader(std::unique_ptr<ByteReader> bytes, size_t buffer_size)
    : bytes_(std::move(bytes)),
      size_bound_(bytes_->size_bound()),
      // A byte more than a small file has: the read that fills it finds the end, too.
      buffer_(size_bound_ < buffer_size ? size_bound_ + 1 : buffer_size) {}

size_t BufferedReader::read_more(char* out, size_t size) {
  if (ended_) return 0;
  try {
    const size_t got = bytes_->read(out, size);
    ended_ = got < size;
    return got;
  } catch (...) {
    ended_ = true;
    begin_ = end_ = 0;
    throw;
  }
}

void BufferedReader::fill(size_t wanted) {
  if (ended_) return;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() < wanted) buffer_.resize(std::max(wanted, 2 * buffer_.size()));
  end_ += read_more(buffer_.data() + end_, buffer_.size() - end_);
}

size_t BufferedReader::read(char* out, size_t size) {
  if (size == 0) return 0;  // `out` may be null
  const size_t ready = std::min(size, end_ - begin_);
  std::memcpy(out, buffer_.data() + begin_, ready);
  consume(ready);
  size_t left = size - ready;
  if (left == 0) return size;
  if (left < buffer_.size() / 2) {
    fill(left);
    const size_t got = std::min(left, end_ - begin_);
    std::memcpy(out + ready, buffer_.data() + begin_, got);
    consume(got);
    return ready + got;
  }
  const size_t got = read_more(out + ready, left);
  offset_ += got;
  return ready + got;
}

uint64_t BufferedReader::skip(uint64_t size) {
  const uint64_t ready = std::min<uint64_t>(size, end_ - begin_);
  consume(static_cast<size_t>(ready));
  if (ready == size || ended_) return ready;
  uint64_t got = 0;
  try {
    got = bytes_->skip(size - ready);
  } catch (...) {
    ended_ = true;
    throw;
  }
  offset_ += got;
  return ready + got;
}

uint64_t BufferedReader::bytes_left_bound() const {
  return size_bound_ - std::min(size_bound_, offset_);
}

}  // namespace strata::data::detail
