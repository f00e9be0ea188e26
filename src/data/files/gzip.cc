#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "data/files/byte_reader.h"
#include "strata/core/error.h"

namespace strata::data::detail {
namespace {

// Deflate cannot expand by more (zlib's technical notes: 1032 to 1).
constexpr uint64_t kMaxRatio = 1032;

class GzipReader final : public ByteReader {
 public:
  GzipReader(std::unique_ptr<ReadableFile> file, Compression compression, std::string path)
      : file_(std::move(file)),
        file_size_(file_->size()),
        path_(std::move(path)),
        many_members_(compression == Compression::kGzip) {
    constexpr int kGzipOnly = 16;
    const int bits = MAX_WBITS + (compression == Compression::kGzip ? kGzipOnly : 0);
    STRATA_CHECK(inflateInit2(&zlib_, bits) == Z_OK, kResourceExhausted,
                 "[data] gzip: zlib cannot start: ", zlib_.msg ? zlib_.msg : "out of memory");
  }
  ~GzipReader() override { inflateEnd(&zlib_); }

  size_t read(void* out, size_t size) override {
    auto* to = static_cast<unsigned char*>(out);
    size_t left = size;
    while (left > 0 && !ended_) {
      const size_t step = std::min<size_t>(left, std::numeric_limits<uInt>::max() / 2);
      zlib_.next_out = to;
      zlib_.avail_out = static_cast<uInt>(step);
      inflate_some();
      const size_t got = step - zlib_.avail_out;
      to += got;
      left -= got;
    }
    return size - left;
  }

  uint64_t size_bound() const override {
    return file_size_ > std::numeric_limits<uint64_t>::max() / kMaxRatio
               ? std::numeric_limits<uint64_t>::max()
               : file_size_ * kMaxRatio;
  }

 private:
  void inflate_some() {
    if (zlib_.avail_in == 0) refill();
    if (between_members_) {
      if (zlib_.avail_in == 0) {
        ended_ = true;
        return;
      }
      between_members_ = false;
    }
    const int status = inflate(&zlib_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      ended_ = !many_members_;
      if (ended_) return;
      // gzip files may be several, one behind the other; the data is then joined.
      inflateReset(&zlib_);
      between_members_ = true;
      return;
    }
    STRATA_CHECK(status == Z_OK || status == Z_BUF_ERROR, kDataLoss, "[data] gzip: ", path_,
                 ", compressed offset ", offset(), ": got damaged data (",
                 zlib_.msg ? zlib_.msg : "zlib error", "); expected a valid ", kind(), " stream");
    STRATA_CHECK(zlib_.avail_in > 0 || zlib_.avail_out == 0 || !file_ended_, kDataLoss,
                 "[data] gzip: ", path_, ", compressed offset ", offset(),
                 ": got the end of the file; expected more of the ", kind(),
                 " stream; the file is truncated");
  }

  void refill() {
    const size_t got = read_at(*file_, read_, std::as_writable_bytes(std::span(input_)));
    file_ended_ = got == 0;
    read_ += got;
    zlib_.next_in = input_.data();
    zlib_.avail_in = static_cast<uInt>(got);
  }

  uint64_t offset() const { return read_ - zlib_.avail_in; }
  const char* kind() const { return many_members_ ? "gzip" : "zlib"; }

  std::unique_ptr<ReadableFile> file_;
  uint64_t file_size_;
  std::string path_;
  bool many_members_;
  z_stream zlib_{};
  std::array<unsigned char, 1 << 16> input_{};
  uint64_t read_ = 0;  // compressed bytes
  bool file_ended_ = false;
  bool between_members_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteReader> open_gzip(std::unique_ptr<ReadableFile> file, Compression compression,
                                      const std::string& path) {
  return std::make_unique<GzipReader>(std::move(file), compression, path);
}

}  // namespace strata::data::detail
